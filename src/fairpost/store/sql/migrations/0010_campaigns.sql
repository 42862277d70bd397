-- Campaigns: what is sent to whom, step by step, inside a workspace's own hours and quota.

-- When and how much a workspace sends in campaigns. What it means for single moments is worked out elsewhere, for weeks
-- ahead, and written down as `open` and `quotas`: so nothing here depends on which time zones the server knows.
CREATE TABLE fairpost.schedules (
    workspace        text PRIMARY KEY,
    timezone         text NOT NULL DEFAULT 'UTC',
    days             smallint[],                   -- 1 is Monday; null: no window, any time will do
    opens            time,
    closes           time,
    holidays         date[] NOT NULL DEFAULT '{}',
    daily_max        integer CHECK (daily_max > 0),
    ramp_up_days     integer NOT NULL DEFAULT 0,
    ramp_up_percents integer[] NOT NULL DEFAULT '{}',
    first_day        date,                         -- a ramp-up counts from here: the local day of the first launch
    known_until      timestamptz NOT NULL DEFAULT '-infinity',   -- so far its hours and quotas are worked out
    revision         bigint NOT NULL DEFAULT 0,
    CHECK ((days IS NULL) = (opens IS NULL) AND (days IS NULL) = (closes IS NULL))
);

-- The local days of a workspace with a quota: charged when a send begins, given back when nothing was sent.
CREATE TABLE fairpost.quotas (
    workspace text NOT NULL,
    starts_at timestamptz NOT NULL,
    ends_at   timestamptz NOT NULL,
    day       date NOT NULL,
    allowed   integer NOT NULL CHECK (allowed > 0),
    used      integer NOT NULL DEFAULT 0,
    PRIMARY KEY (workspace, starts_at)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE fairpost.templates (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace  text NOT NULL,
    name       text NOT NULL CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
    subject    text NOT NULL,
    text_body  text,
    html_body  text,
    is_own     boolean NOT NULL DEFAULT false,   -- the words of one campaign, whose file says them
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    UNIQUE (workspace, name),
    CHECK (text_body IS NOT NULL OR html_body IS NOT NULL)
);

CREATE TABLE fairpost.sequences (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace  text NOT NULL,
    name       text NOT NULL CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
    is_own     boolean NOT NULL DEFAULT false,   -- made for one campaign, of the same name
    created_at timestamptz NOT NULL,
    UNIQUE (workspace, name)
);

CREATE TABLE fairpost.sequence_steps (
    sequence_id bigint NOT NULL REFERENCES fairpost.sequences ON DELETE CASCADE,
    step        smallint NOT NULL CHECK (step BETWEEN 1 AND 100),
    template_id bigint NOT NULL REFERENCES fairpost.templates,
    delay_s     bigint NOT NULL DEFAULT 0 CHECK (delay_s BETWEEN 0 AND 31622400),   -- a year
    PRIMARY KEY (sequence_id, step),
    CHECK (step > 1 OR delay_s = 0)
);
CREATE INDEX sequence_steps_by_template ON fairpost.sequence_steps (template_id);

CREATE TYPE fairpost.campaign_state AS ENUM ('draft', 'scheduled', 'running', 'paused', 'completed', 'failed', 'cancelled');

CREATE TABLE fairpost.campaigns (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace       text NOT NULL,
    name            text NOT NULL CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
    state           fairpost.campaign_state NOT NULL DEFAULT 'draft',
    reason          text,
    sequence_id     bigint NOT NULL REFERENCES fairpost.sequences,
    lists           bigint[] NOT NULL,
    route           text NOT NULL,            -- a pool, or @ and an account
    user_name       text NOT NULL DEFAULT '',
    gap_min_s       double precision,
    gap_max_s       double precision,
    by_recipients_clock boolean NOT NULL DEFAULT false,
    skips_incomplete boolean NOT NULL DEFAULT false,   -- who lacks a field is left out, instead of stopping the launch
    required        text[] NOT NULL DEFAULT '{}',      -- the fields that its templates cannot do without
    created_at      timestamptz NOT NULL,
    starts_at       timestamptz,
    launched_at     timestamptz,
    finished_at     timestamptz,
    planned_through bigint NOT NULL DEFAULT 0,   -- every prospect of its lists up to this id has its e-mails
    planned_at      timestamptz,
    prospects       bigint NOT NULL DEFAULT 0,   -- how many that are
    left_out        bigint NOT NULL DEFAULT 0,   -- of them: who lacked a field
    scheduled       bigint NOT NULL DEFAULT 0,   -- e-mails; those of the others had been scheduled before, under the same key
    forecast        jsonb,                       -- as it was made at the launch, to be compared with what comes
    UNIQUE (workspace, name),
    CHECK (gap_min_s >= 0 AND gap_max_s >= gap_min_s AND gap_max_s <= 86400)
);
CREATE INDEX campaigns_alive ON fairpost.campaigns (id) WHERE state IN ('scheduled', 'running', 'paused');
CREATE INDEX campaigns_by_sequence ON fairpost.campaigns (sequence_id);
CREATE INDEX campaigns_to_clear ON fairpost.campaigns (id) WHERE state = 'cancelled' AND finished_at IS NULL;

-- What each step says and when it follows, as it was when the campaign was launched.
CREATE TABLE fairpost.campaign_steps (
    campaign_id bigint NOT NULL REFERENCES fairpost.campaigns ON DELETE CASCADE,
    step        smallint NOT NULL,
    template    text NOT NULL,
    content_id  bigint NOT NULL,
    delay_s     bigint NOT NULL,
    PRIMARY KEY (campaign_id, step)
);

-- A campaign's mail hangs on the tree as one stream, or one for each time zone of its recipients.
CREATE TABLE fairpost.campaign_streams (
    workspace   text NOT NULL,
    stream      text NOT NULL,
    campaign_id bigint NOT NULL REFERENCES fairpost.campaigns ON DELETE CASCADE,
    timezone    text,                         -- null: the workspace's own
    flow        uuid NOT NULL,
    open        tstzmultirange,               -- when it may send, for weeks ahead; null: at any time
    PRIMARY KEY (workspace, stream)
);
CREATE INDEX campaign_streams_by_campaign ON fairpost.campaign_streams (campaign_id);

-- Who gets nothing more: of one campaign, or (0) of any.
CREATE TABLE fairpost.stops (
    prospect_id bigint NOT NULL,
    campaign_id bigint NOT NULL,
    reason      text NOT NULL,
    at          timestamptz NOT NULL,
    PRIMARY KEY (prospect_id, campaign_id)
);

ALTER TABLE fairpost.contents ADD COLUMN is_template boolean NOT NULL DEFAULT false;

ALTER TABLE fairpost.queue
    ADD COLUMN campaign_id bigint,
    ADD COLUMN prospect_id bigint,
    ADD COLUMN step        smallint,
    ADD COLUMN parked_due  timestamptz;       -- of a paused prospect: when it is due once he is not any more
ALTER TABLE fairpost.emails
    ADD COLUMN campaign_id bigint,
    ADD COLUMN prospect_id bigint,
    ADD COLUMN step        smallint;
CREATE INDEX queue_of_campaign ON fairpost.queue (campaign_id, due_at) WHERE campaign_id IS NOT NULL;
CREATE INDEX queue_of_prospect ON fairpost.queue (prospect_id) WHERE prospect_id IS NOT NULL;
CREATE INDEX queue_followers ON fairpost.queue (follows) WHERE follows IS NOT NULL;
CREATE INDEX queue_pinned ON fairpost.queue (route, due_at) WHERE campaign_id IS NOT NULL AND waiting AND left(route, 1) = '@';
CREATE INDEX emails_of_campaign ON fairpost.emails (campaign_id, step, state) WHERE campaign_id IS NOT NULL;
CREATE INDEX emails_campaign_missed ON fairpost.emails (campaign_id, id) WHERE campaign_id IS NOT NULL AND state <> 'sent';
CREATE INDEX emails_of_prospect ON fairpost.emails (prospect_id) WHERE prospect_id IS NOT NULL;
CREATE INDEX emails_followers ON fairpost.emails (follows) WHERE follows IS NOT NULL AND state = 'cancelled';
