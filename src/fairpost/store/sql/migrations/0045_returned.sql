-- What came back: reports, complaints, auto-replies, requests and replies, each once for an e-mail and an address.
CREATE TABLE fairpost.returned (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace  text,                 -- null: nobody knows whose e-mail it was, and nothing follows from it
    email_id   bigint,               -- null with it
    address    text NOT NULL,        -- folded
    effect     text NOT NULL CHECK (effect IN ('bounced', 'full', 'undelivered', 'delayed', 'delivered', 'complained', 'feedback', 'away', 'unsubscribed', 'replied')),
    reason     text NOT NULL CHECK (reason ~ '^[a-z_]+\.[a-z_]+$'),
    params     jsonb NOT NULL,
    source     text NOT NULL,        -- which mail said so: a digest of it
    account_id bigint,               -- whose mailbox it came to
    back_on    date,                 -- of `away`
    at         timestamptz NOT NULL,
    applied_at timestamptz,          -- null: its e-mail is not finished yet, or not known
    CONSTRAINT returned_is_whose CHECK ((workspace IS NULL) = (email_id IS NULL))
);
CREATE UNIQUE INDEX returned_once ON fairpost.returned (email_id, address, effect) WHERE email_id IS NOT NULL;
CREATE UNIQUE INDEX returned_unknown_once ON fairpost.returned (source, address, effect) WHERE email_id IS NULL;
CREATE INDEX returned_to_apply ON fairpost.returned (id) WHERE email_id IS NOT NULL AND applied_at IS NULL;
CREATE INDEX returned_by_workspace ON fairpost.returned (workspace, id);
CREATE INDEX returned_by_address ON fairpost.returned (address);

ALTER TABLE fairpost.returned ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.returned USING (workspace = (SELECT current_setting('fairpost.workspace', true)));
