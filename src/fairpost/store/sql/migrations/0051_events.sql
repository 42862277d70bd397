-- What happened, for programs: a row in the commit that makes the change. See docs/decisions/0034-events-by-snapshots.md.
CREATE SEQUENCE fairpost.outbox_serial;
CREATE TABLE fairpost.outbox (
    id          bigint NOT NULL DEFAULT nextval('fairpost.outbox_serial'),   -- two changes of one thing have ids in their order
    xid         xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at          timestamptz NOT NULL,
    kind        text NOT NULL,
    workspace   text,                       -- null: the operator's
    email_id    bigint,
    account_id  bigint,
    campaign_id bigint,
    subject     text,                       -- the account, campaign, sender or domain, by its name
    address     text,                       -- the one recipient it is about
    reason      text,
    params      jsonb
) PARTITION BY RANGE (at);
CREATE INDEX outbox_new ON fairpost.outbox (xid, id);
CREATE INDEX outbox_of_email ON fairpost.outbox (email_id) WHERE email_id IS NOT NULL;
CREATE INDEX outbox_of_address ON fairpost.outbox (address) WHERE address IS NOT NULL;
ALTER TABLE fairpost.outbox ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.outbox USING (workspace = (SELECT current_setting('fairpost.workspace', true)));

-- The order of events. Those of a turn: with an id from `first_id` to `last_id`, of the transactions from `since` on that `snap` sees, and of the older `late` ones.
CREATE TABLE fairpost.event_turns (
    turn     bigint PRIMARY KEY,            -- the series in the high 32 bits
    since    xid8 NOT NULL,
    snap     pg_snapshot NOT NULL,
    late     xid8[] NOT NULL,
    taken_by xid8 NOT NULL,                 -- the transaction that wrote this row
    n        integer NOT NULL,              -- 0: begins a series
    first_id bigint NOT NULL,
    last_id  bigint NOT NULL,
    first_at timestamptz NOT NULL,
    last_at  timestamptz NOT NULL
);
ALTER TABLE fairpost.event_turns ENABLE ROW LEVEL SECURITY;

-- Events up to here were dropped.
CREATE TABLE fairpost.events_dropped (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    turn   bigint NOT NULL DEFAULT 0,
    id     bigint NOT NULL DEFAULT 0
);
INSERT INTO fairpost.events_dropped DEFAULT VALUES;
ALTER TABLE fairpost.events_dropped ENABLE ROW LEVEL SECURITY;
