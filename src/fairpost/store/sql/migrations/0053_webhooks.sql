-- Endpoints that events are posted to. See docs/webhooks.md.
CREATE TABLE fairpost.webhooks (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace     text,                            -- null: the operator's, for the events of all workspaces
    url           text NOT NULL,
    description   text NOT NULL DEFAULT '',
    kinds         text[] NOT NULL DEFAULT '{}',    -- empty: all
    tags          jsonb NOT NULL DEFAULT '{}',     -- an event must have all of them
    created_at    timestamptz NOT NULL,
    paused_at     timestamptz,
    disabled_at   timestamptz,                     -- by an engine, after a day of failures
    told_at       timestamptz,                     -- its owners were notified of that
    cursor        text NOT NULL,                   -- events up to here were delivered, or are pending
    is_behind     boolean NOT NULL DEFAULT true,   -- false: there was nothing for it up to the turn of webhook_reader
    failing_since timestamptz,                     -- nothing was delivered since
    failures      integer NOT NULL DEFAULT 0,      -- turns in a row without a delivery
    next_at       timestamptz,                     -- nothing is tried before
    reason        text,                            -- of the last failure
    params        jsonb,
    delivered_at  timestamptz,                     -- the last time
    served_at     timestamptz,                     -- by an engine, the last time
    leased_by     text,
    leased_until  timestamptz,
    epoch         bigint NOT NULL DEFAULT 0
);
CREATE INDEX webhooks_by_workspace ON fairpost.webhooks (workspace, id);
ALTER TABLE fairpost.webhooks ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.webhooks USING (workspace = (SELECT current_setting('fairpost.workspace', true)));

-- What signs, sealed as the accounts' passwords are. Two while one replaces the other.
CREATE TABLE fairpost.webhook_secrets (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook_id bigint NOT NULL REFERENCES fairpost.webhooks ON DELETE CASCADE,
    workspace  text,
    secret     text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz
);
CREATE INDEX webhook_secrets_of ON fairpost.webhook_secrets (webhook_id, id);
ALTER TABLE fairpost.webhook_secrets ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.webhook_secrets USING (workspace = (SELECT current_setting('fairpost.workspace', true)));

-- Events before the cursor that were not delivered yet: those that failed, and those of the same e-mail behind them.
CREATE TABLE fairpost.webhook_pending (
    webhook_id bigint NOT NULL REFERENCES fairpost.webhooks ON DELETE CASCADE,
    turn       bigint NOT NULL,
    event_id   bigint NOT NULL,
    workspace  text,                               -- of the endpoint
    lane       text NOT NULL,                      -- events of one lane are delivered in order
    attempts   integer NOT NULL,
    since      timestamptz NOT NULL,
    next_at    timestamptz NOT NULL,
    PRIMARY KEY (webhook_id, turn, event_id)
);
CREATE INDEX webhook_pending_by_lane ON fairpost.webhook_pending (webhook_id, lane, turn, event_id);
ALTER TABLE fairpost.webhook_pending ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.webhook_pending USING (workspace = (SELECT current_setting('fairpost.workspace', true)));

-- Every request, for some days. Its body is the event's, which is not stored twice.
CREATE TABLE fairpost.webhook_deliveries (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook_id  bigint NOT NULL REFERENCES fairpost.webhooks ON DELETE CASCADE,
    workspace   text,
    at          timestamptz NOT NULL,
    message_id  text NOT NULL,
    kind        text NOT NULL,
    cursor      text,                              -- of the event; null: a test
    email_id    bigint,
    attempt     integer NOT NULL,
    status      integer,
    reason      text,                              -- null: delivered
    params      jsonb,
    duration_ms integer NOT NULL,
    answer      text
);
CREATE INDEX webhook_deliveries_of ON fairpost.webhook_deliveries (webhook_id, id DESC);
CREATE INDEX webhook_deliveries_of_email ON fairpost.webhook_deliveries (email_id) WHERE email_id IS NOT NULL;
ALTER TABLE fairpost.webhook_deliveries ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.webhook_deliveries USING (workspace = (SELECT current_setting('fairpost.workspace', true)));

-- The turn of events up to which endpoints know whether there is something for them.
CREATE TABLE fairpost.webhook_reader (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    turn   bigint NOT NULL DEFAULT 0
);
INSERT INTO fairpost.webhook_reader DEFAULT VALUES;
ALTER TABLE fairpost.webhook_reader ENABLE ROW LEVEL SECURITY;
