-- Mailboxes that are read: which engine reads each, how far it has come, and why it cannot go on.
CREATE TABLE fairpost.mailbox_reads (
    account_id bigint PRIMARY KEY REFERENCES fairpost.accounts ON DELETE CASCADE,
    owner      text,                          -- an engine; its own signs of life are the lease
    epoch      bigint NOT NULL DEFAULT 0,     -- grows with each owner: a former one can commit nothing
    position   jsonb,                         -- where reading goes on; null: it has not begun
    looked_at  timestamptz,                   -- when the last look that succeeded began
    failures   integer NOT NULL DEFAULT 0,    -- in a row
    due_at     timestamptz,                   -- not before this, after a failure
    settings   text,                          -- with which it failed: others are tried at once
    reason     text CHECK (reason ~ '^[a-z_]+\.[a-z_]+$'),
    params     jsonb,
    failed_at  timestamptz                    -- the first failure in a row
) WITH (fillfactor = 80);
ALTER TABLE fairpost.mailbox_reads ENABLE ROW LEVEL SECURITY;

CREATE INDEX accounts_read ON fairpost.accounts (id) WHERE transport @> '{"read": true}';
