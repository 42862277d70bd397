-- The tables of the core. Functions live beside this folder, one file each, and are laid anew whenever they change.

CREATE TYPE fairpost.email_state AS ENUM (
    'waiting',      -- shown as scheduled or ready, by the clock: no row is touched when a moment passes
    'claimed', 'sending', 'in_doubt',
    'sent', 'failed', 'bounced', 'suppressed', 'cancelled'
);
CREATE TYPE fairpost.email_class AS ENUM ('urgent', 'bulk');
CREATE TYPE fairpost.doubt_policy AS ENUM ('resend', 'hold');
CREATE TYPE fairpost.account_status AS ENUM ('active', 'paused', 'paused_limit_reached', 'suspended');
CREATE TYPE fairpost.node_level AS ENUM ('route', 'workspace', 'domain', 'user', 'stream');

-- A node that a claim goes through, with its way down from the workspace: how many e-mails it may take, and for
-- each level where the node's row lies, the group it counts with, and the virtual time of the first of its siblings.
CREATE TYPE fairpost.branch AS (
    node bigint, v double precision, flow uuid, head_due timestamptz, head_id bigint, pinned boolean, grp integer, quota integer,
    path bigint[], spots tid[], groups integer[], starts double precision[]
);

-- The low 20 bits of an id; the milliseconds of the clock are the high ones.
CREATE SEQUENCE fairpost.id_serial MINVALUE 0 MAXVALUE 1048575 START 0 CYCLE;

-- ── content: immutable, shared by explicit id ────────────────────────────────────────────────────────────
CREATE TABLE fairpost.contents (
    id          bigint NOT NULL PRIMARY KEY,
    subject     text NOT NULL,
    text_body   text,
    html_body   text,
    reply_to    jsonb,
    headers     jsonb,
    created_at  timestamptz NOT NULL
) PARTITION BY RANGE (id);

CREATE TABLE fairpost.attachments (
    content_id   bigint NOT NULL,
    position     smallint NOT NULL,
    filename     text NOT NULL,
    content_type text NOT NULL,
    inline_id    text,              -- the cid: of an inline image
    data         bytea NOT NULL,
    PRIMARY KEY (content_id, position)
) PARTITION BY RANGE (content_id);

-- ── hot: what is not finished ────────────────────────────────────────────────────────────────────────────
CREATE TABLE fairpost.queue (
    id              bigint NOT NULL PRIMARY KEY,
    flow            uuid NOT NULL,            -- the leaf of the flow tree it hangs on
    due_at          timestamptz NOT NULL,
    state           fairpost.email_state NOT NULL DEFAULT 'waiting',
    waiting         boolean NOT NULL DEFAULT true,  -- in the indexes instead of state, so that begin stays a HOT update
    attempts        smallint NOT NULL DEFAULT 0,
    attempts_max    smallint NOT NULL,
    account_id      bigint,                   -- whose lease holds it, or held it last
    epoch           bigint,
    claimed_at      timestamptz,
    begun_at        timestamptz,
    expires_at      timestamptz,
    created_at      timestamptz NOT NULL,
    content_id      bigint NOT NULL,
    class           fairpost.email_class NOT NULL,
    on_doubt        fairpost.doubt_policy NOT NULL,
    route           text NOT NULL,
    workspace       text NOT NULL,
    domain          text NOT NULL,
    user_name       text NOT NULL,
    stream          text NOT NULL,
    sender          jsonb,                    -- {"address", "name"}; null: the account's own
    recipients      jsonb NOT NULL,           -- [{"kind": "to", "address", "name"}]
    addresses       text[] NOT NULL,          -- who is still to get it: the envelope
    fields          jsonb,
    idempotency_key text,
    last_error      text,
    evidence        jsonb,                    -- what the transport wrote down before it acted
    CONSTRAINT queue_holds_only_unfinished CHECK (state IN ('waiting', 'claimed', 'sending', 'in_doubt')),
    CONSTRAINT queue_waiting_is_the_state CHECK (waiting = (state = 'waiting')),
    CONSTRAINT queue_held_by_a_lease CHECK (state = 'waiting' OR (account_id IS NOT NULL AND epoch IS NOT NULL)),
    CONSTRAINT queue_begun_counts CHECK (state NOT IN ('sending', 'in_doubt') OR (attempts > 0 AND begun_at IS NOT NULL))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX queue_waiting ON fairpost.queue (flow, due_at, id) WHERE waiting;
CREATE INDEX queue_held ON fairpost.queue (account_id, id) WHERE NOT waiting;
CREATE INDEX queue_by_workspace ON fairpost.queue (workspace, id);

-- What the tree has not heard of yet. Whoever makes an e-mail wait (or takes a waiting one away) leaves a note
-- here, in his own transaction, and touches nothing that others touch.
CREATE TABLE fairpost.arrivals (
    route     text NOT NULL,
    xid       xid8 NOT NULL DEFAULT pg_current_xact_id(),
    class     fairpost.email_class NOT NULL,
    workspace text NOT NULL,
    domain    text NOT NULL,
    user_name text NOT NULL,
    stream    text NOT NULL,
    flow      uuid NOT NULL,
    n         integer NOT NULL,       -- below zero: so many were taken away
    due_at    timestamptz NOT NULL,   -- the earliest of them, by (due_at, id); infinity: none came, some went
    id        bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX arrivals_new ON fairpost.arrivals (route, xid);

-- ── the flow tree: who (never changes) and clocks (always change) ────────────────────────────────────────
CREATE SEQUENCE fairpost.node_serial;
CREATE TABLE fairpost.nodes (
    id        bigint PRIMARY KEY,
    parent    bigint NOT NULL,
    level     fairpost.node_level NOT NULL,
    route     text NOT NULL,
    class     fairpost.email_class NOT NULL,
    workspace text NOT NULL,
    key       text NOT NULL,
    path      bigint[] NOT NULL,      -- workspace, domain, user, stream, as far down as this node; a route's is empty
    flow      uuid,
    UNIQUE (parent, key)
);
CREATE UNIQUE INDEX nodes_by_flow ON fairpost.nodes (flow) WHERE flow IS NOT NULL;
CREATE INDEX nodes_by_name ON fairpost.nodes (workspace, level, key);

CREATE TABLE fairpost.clocks (
    id         bigint NOT NULL,       -- of the node. No unique index: each change would check every version kept from vacuum
    parent     bigint NOT NULL,
    key        text NOT NULL,
    route      text NOT NULL,
    flow       uuid,
    weight     double precision NOT NULL CHECK (weight > 0),
    vtime      double precision NOT NULL DEFAULT 0,  -- what it has been served, divided by its weight
    v          double precision NOT NULL DEFAULT 0,  -- the virtual time reached among its children
    busy       integer NOT NULL DEFAULT 0 CHECK (busy >= 0),     -- children to serve; of a leaf, 1 or 0
    waiting    bigint NOT NULL DEFAULT 0,   -- e-mails below it, due or not; with the arrivals not yet staged, exact
    head_due   timestamptz NOT NULL DEFAULT '-infinity',  -- of a leaf: nothing waits before this place
    head_id    bigint NOT NULL DEFAULT 0,
    wake_at    timestamptz,           -- of a leaf that sleeps: when its next e-mail is due
    held_until timestamptz
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX clocks_by_id ON fairpost.clocks (id);
CREATE INDEX clocks_active ON fairpost.clocks (parent, vtime) WHERE busy > 0 AND held_until IS NULL;
CREATE INDEX clocks_asleep ON fairpost.clocks (route, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX clocks_of_routes ON fairpost.clocks (id, v) WHERE parent = 0;
CREATE INDEX clocks_held ON fairpost.clocks (route, held_until) WHERE held_until IS NOT NULL;

-- One row a route; holding it is what makes staging one process's work.
CREATE TABLE fairpost.routes (
    route       text PRIMARY KEY,
    seen        pg_snapshot NOT NULL DEFAULT '1:1:',   -- arrivals visible to this snapshot are in the tree
    seen_by     xid8 NOT NULL DEFAULT '0',
    swept_at    timestamptz NOT NULL DEFAULT '-infinity',   -- when all notes were looked at, whatever was seen before
    woken_until timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 10);

-- What an operator or a policy says of one name, for the nodes that exist and those to come.
CREATE TABLE fairpost.rules (
    workspace   text NOT NULL,
    level       fairpost.node_level NOT NULL CHECK (level <> 'route'),
    key         text NOT NULL,
    weight      double precision CHECK (weight > 0 AND weight <= 1000),
    held_until  timestamptz,
    hold_reason text,
    PRIMARY KEY (workspace, level, key)
);

-- ── accounts ─────────────────────────────────────────────────────────────────────────────────────────────
CREATE TABLE fairpost.accounts (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name          text NOT NULL UNIQUE CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
    address       text NOT NULL,
    display_name  text,
    pool          text NOT NULL DEFAULT 'default' CHECK (pool ~ '^[^@]'),   -- @ marks the mail pinned to one account
    transport     jsonb NOT NULL,
    status        fairpost.account_status NOT NULL DEFAULT 'active',
    status_reason text,
    batch_max     integer NOT NULL DEFAULT 50 CHECK (batch_max BETWEEN 1 AND 1000),
    delay_ms      integer NOT NULL DEFAULT 0 CHECK (delay_ms >= 0),
    hourly_max    integer CHECK (hourly_max > 0),
    daily_max     integer CHECK (daily_max > 0),
    created_at    timestamptz NOT NULL
);

-- The account's hot row: its lease and what it has used of its limits. One writer: the holder of the lease.
CREATE TABLE fairpost.leases (
    account_id      bigint PRIMARY KEY REFERENCES fairpost.accounts ON DELETE CASCADE,
    epoch           bigint NOT NULL DEFAULT 0,       -- only grows
    owner           text,
    until           timestamptz NOT NULL DEFAULT '-infinity',
    hour_started_at timestamptz,
    hour_used       integer NOT NULL DEFAULT 0,
    day_started_at  timestamptz,
    day_used        integer NOT NULL DEFAULT 0,
    day_bounces     integer NOT NULL DEFAULT 0,
    day_errors      integer NOT NULL DEFAULT 0,
    last_begun_at   timestamptz,
    sent_total      bigint NOT NULL DEFAULT 0,
    urgent_run      integer NOT NULL DEFAULT 0       -- urgent e-mails taken since bulk had its tenth
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- ── for good ─────────────────────────────────────────────────────────────────────────────────────────────
CREATE TABLE fairpost.emails (
    id              bigint NOT NULL PRIMARY KEY,
    state           fairpost.email_state NOT NULL,
    reason          text,
    finished_at     timestamptz NOT NULL,
    created_at      timestamptz NOT NULL,
    due_at          timestamptz NOT NULL,
    expires_at      timestamptz,
    attempts        smallint NOT NULL,
    attempts_max    smallint NOT NULL,
    account_id      bigint,
    content_id      bigint NOT NULL,
    class           fairpost.email_class NOT NULL,
    on_doubt        fairpost.doubt_policy NOT NULL,
    flow            uuid NOT NULL,
    route           text NOT NULL,
    workspace       text NOT NULL,
    domain          text NOT NULL,
    user_name       text NOT NULL,
    stream          text NOT NULL,
    sender          jsonb,
    recipients      jsonb NOT NULL,
    addresses       text[] NOT NULL,
    fields          jsonb,
    idempotency_key text,
    message_id      text,
    thread_id       text,
    CONSTRAINT emails_hold_only_finished CHECK (state IN ('sent', 'failed', 'bounced', 'suppressed', 'cancelled'))
) PARTITION BY RANGE (id);
CREATE INDEX emails_by_workspace ON fairpost.emails (workspace, id);
CREATE INDEX emails_by_finish ON fairpost.emails USING brin (finished_at);
CREATE INDEX emails_not_sent ON fairpost.emails (workspace, state, id) WHERE state <> 'sent';

CREATE TABLE fairpost.attempts (
    email_id    bigint NOT NULL,
    n           smallint NOT NULL,
    account_id  bigint NOT NULL,
    epoch       bigint NOT NULL,
    begun_at    timestamptz NOT NULL,
    ended_at    timestamptz NOT NULL,
    outcome     text NOT NULL,
    code        smallint,
    reply       text,
    response_ms integer,
    recipients  jsonb,                -- the reply per recipient, where there are several
    PRIMARY KEY (email_id, n)
) PARTITION BY RANGE (email_id);

CREATE TABLE fairpost.idempotency_keys (
    key_hash uuid PRIMARY KEY,        -- of workspace and key
    email_id bigint NOT NULL
);

CREATE TABLE fairpost.suppressions (
    workspace  text NOT NULL,         -- '*': everybody's
    address    text NOT NULL,         -- folded
    reason     text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (address, workspace)
);

CREATE TABLE fairpost.events (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL,
    kind      text NOT NULL,
    workspace text,
    subject   text NOT NULL,
    detail    jsonb
);
