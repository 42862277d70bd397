-- What people wrote back, by person: a conversation for each workspace and address, and the mails of that person in it.
CREATE TABLE fairpost.conversations (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace text NOT NULL,
    address   text NOT NULL,                 -- folded: the address that we wrote to
    labels    text[] NOT NULL DEFAULT '{}',  -- sorted
    last_at   timestamptz NOT NULL,          -- when the last mail came
    CONSTRAINT conversations_by_person UNIQUE (workspace, address)
);
CREATE INDEX conversations_by_time ON fairpost.conversations (workspace, last_at, id);
CREATE INDEX conversations_by_address ON fairpost.conversations (address);   -- for erasure
CREATE INDEX conversations_by_age ON fairpost.conversations (last_at);       -- for retention

CREATE TABLE fairpost.replies (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id bigint NOT NULL REFERENCES fairpost.conversations ON DELETE CASCADE,
    workspace       text NOT NULL,
    email_id        bigint NOT NULL,         -- the e-mail that it answers
    account_id      bigint,                  -- the account it came to, else the one that sent the e-mail
    kind            text NOT NULL CHECK (kind IN ('reply', 'auto_reply', 'unsubscribe')),
    mail            text NOT NULL,           -- which mail it is: a digest of its Message-ID, or of all of it
    author          text NOT NULL,           -- folded: may differ from the address that we wrote to
    from_name       text NOT NULL,
    from_address    text NOT NULL,
    to_addresses    text[] NOT NULL,
    subject         text NOT NULL,
    sent_at         timestamptz,             -- by its Date
    at              timestamptz NOT NULL,
    message_id      text,
    in_reply_to     text,
    refs            text[] NOT NULL,         -- its References
    text_body       text NOT NULL,           -- without the quoted part
    html_body       text,                    -- safe to show
    is_cut          boolean NOT NULL,        -- it was longer
    CONSTRAINT replies_once UNIQUE (conversation_id, mail)
);
CREATE INDEX replies_by_author ON fairpost.replies (author);   -- for erasure

ALTER TABLE fairpost.conversations ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.conversations USING (workspace = (SELECT current_setting('fairpost.workspace', true)));
ALTER TABLE fairpost.replies ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.replies USING (workspace = (SELECT current_setting('fairpost.workspace', true)));
