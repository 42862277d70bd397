-- Who sends and what follows from it: tiers, throttles and lanes, and the counters behind them.

-- What a policy says of a name, beside what a person says of it: neither ends the other.
ALTER TABLE fairpost.rules
    ADD COLUMN tier            smallint CHECK (tier BETWEEN -1 AND 2),   -- null: nobody said, and it counts as 1
    ADD COLUMN throttled_until timestamptz,
    ADD COLUMN throttle_reason text;

CREATE TABLE fairpost.senders (
    workspace       text NOT NULL,
    level           fairpost.node_level NOT NULL CHECK (level IN ('workspace', 'user')),
    name            text NOT NULL,            -- '' of a workspace
    plan            text,
    since           timestamptz,              -- its age counts from here; null: nobody said, and so it is not young
    tier            smallint NOT NULL DEFAULT 1 CHECK (tier BETWEEN -1 AND 2),
    look_at         timestamptz,              -- when tier and score are to be looked at again
    throttled_since timestamptz,
    throttled_until timestamptz,
    is_enforced     boolean NOT NULL DEFAULT false,   -- false: only observed, and nobody is slowed down
    is_by_hand      boolean NOT NULL DEFAULT false,
    immune_until    timestamptz,              -- a person lifted it: no scorer puts it back before
    score           smallint NOT NULL DEFAULT 0,
    confidence      double precision NOT NULL DEFAULT 0,
    reasons         text[] NOT NULL DEFAULT '{}',
    scored_at       timestamptz,
    untold          boolean NOT NULL DEFAULT false,   -- the operators have not been told of this throttle
    daily_max       integer CHECK (daily_max > 0),    -- for whatever this user submits, on any way
    waiting_max     integer CHECK (waiting_max > 0),
    revision        bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (workspace, level, name),
    CHECK (level <> 'workspace' OR name = ''),
    CHECK ((throttled_since IS NULL) = (throttled_until IS NULL))
);
CREATE INDEX senders_to_look_at ON fairpost.senders (look_at) WHERE look_at IS NOT NULL;
CREATE INDEX senders_untold ON fairpost.senders (workspace) WHERE untold;
CREATE INDEX senders_throttled ON fairpost.senders (throttled_until) WHERE throttled_since IS NOT NULL;
CREATE INDEX senders_limited ON fairpost.senders (workspace, name) WHERE daily_max IS NOT NULL OR waiting_max IS NOT NULL;

-- Counters by the hour. Each row has one writer: the route that was staged (volume, when mail becomes due), or '#' and the
-- account that sent (outcomes). An hour still to come holds what is planned for it.
CREATE TABLE fairpost.activity (
    workspace text NOT NULL,
    user_name text NOT NULL,
    hour      timestamptz NOT NULL,
    writer    text NOT NULL,
    volume    integer NOT NULL DEFAULT 0,
    sent      integer NOT NULL DEFAULT 0,
    bounced   integer NOT NULL DEFAULT 0,
    rejected  integer NOT NULL DEFAULT 0,
    PRIMARY KEY (workspace, user_name, hour, writer)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX activity_by_hour ON fairpost.activity (hour);

-- What is left of hours that are over for good: the volume of a day.
CREATE TABLE fairpost.activity_days (
    workspace text NOT NULL,
    user_name text NOT NULL,
    day       date NOT NULL,          -- by UTC
    volume    integer NOT NULL,
    PRIMARY KEY (workspace, user_name, day)
);
CREATE INDEX activity_days_by_age ON fairpost.activity_days (day);

-- Users whose counters have changed and whose score nobody has looked at since.
CREATE TABLE fairpost.stirs (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace text NOT NULL,
    user_name text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

-- How long things took, as histograms by the hour; one writer each, the account.
CREATE TABLE fairpost.measures (
    hour       timestamptz NOT NULL,
    account_id bigint NOT NULL REFERENCES fairpost.accounts ON DELETE CASCADE,
    kind       text NOT NULL,          -- wait, wait_fifo, send, claim, commit
    tier       smallint NOT NULL,      -- of the sender; 1 where it does not matter
    n          bigint NOT NULL,
    total_us   bigint NOT NULL,
    buckets    jsonb NOT NULL,         -- {"bucket": how many}
    PRIMARY KEY (hour, account_id, kind, tier)
) WITH (fillfactor = 70);

-- What users submitted over SMTP or HTTP, or on any way where a limit of their own is set.
CREATE TABLE fairpost.submissions (
    workspace text NOT NULL,
    user_name text NOT NULL,
    hour      timestamptz NOT NULL,
    n         integer NOT NULL,
    PRIMARY KEY (workspace, user_name, hour)
);
CREATE INDEX submissions_by_hour ON fairpost.submissions (hour);

-- One row: how mail is shared out, for the whole installation, and how the queue is. Read by every claim.
CREATE TABLE fairpost.fairness (
    single      boolean PRIMARY KEY DEFAULT true CHECK (single),
    share       smallint NOT NULL DEFAULT 100 CHECK (share BETWEEN 0 AND 100),   -- percent of workspaces in the fair queue; the others are FIFO
    lanes       boolean NOT NULL DEFAULT false,                                  -- tiers are lanes, not weights
    weights     double precision[] NOT NULL DEFAULT '{0.1,0.5,1,2}',             -- throttled, low, normal, high
    shares      integer[] NOT NULL DEFAULT '{5,15,40,40}',
    is_scoring  boolean NOT NULL DEFAULT true,
    plans       text NOT NULL DEFAULT '',        -- which are paid and which are free, to see when that changes
    queue_max   bigint NOT NULL DEFAULT 1000000,
    queued      bigint NOT NULL DEFAULT 0,
    oldest_at   timestamptz,
    multiplier  double precision NOT NULL DEFAULT 1,
    looked_at   timestamptz,
    CHECK (cardinality(weights) = 4 AND 0 < ALL (weights) AND 1000 >= ALL (weights)),
    CHECK (cardinality(shares) = 4 AND 0 < ALL (shares) AND 100 >= ALL (shares))
) WITH (fillfactor = 10);
INSERT INTO fairpost.fairness DEFAULT VALUES;

-- What each account has given its lanes, for their shares: throttled, low, normal, high, FIFO.
ALTER TABLE fairpost.leases ADD COLUMN lanes_served double precision[] NOT NULL DEFAULT '{0,0,0,0,0}';

-- E-mails of a note that are new, not come back: the volume of their sender.
ALTER TABLE fairpost.arrivals ADD COLUMN fresh integer NOT NULL DEFAULT 0;

-- Of a leaf whose workspace is served in the order of time: its root.
ALTER TABLE fairpost.clocks ADD COLUMN fifo_root bigint;
CREATE INDEX clocks_in_order ON fairpost.clocks (fifo_root, head_due, head_id) WHERE fifo_root IS NOT NULL AND busy > 0;

-- What the processes of an engine use.
ALTER TABLE fairpost.engines ADD COLUMN vitals jsonb;

-- Where each leaf begins to look, for those that were never served: their order is by it.
UPDATE fairpost.clocks c SET (head_due, head_id) = (
    SELECT coalesce(min(q.due_at), 'infinity'), 0 FROM fairpost.queue q WHERE q.flow = c.flow AND q.waiting)
WHERE c.flow IS NOT NULL AND c.head_due = '-infinity';
