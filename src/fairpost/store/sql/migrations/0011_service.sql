-- An installation that many share: workspaces, what opens their doors, and a wall between them under every query.

CREATE TABLE fairpost.workspaces (
    name         text PRIMARY KEY CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),   -- never an address: it stands in logs and in the directory
    pools        text[] NOT NULL DEFAULT '{default}',   -- of the operator's, that it may send through
    per_minute   integer NOT NULL DEFAULT 6000 CHECK (per_minute BETWEEN 1 AND 1000000),   -- requests of all its keys and people together
    created_at   timestamptz NOT NULL,
    suspended_at timestamptz,                           -- its keys open nothing
    reason       text
);

-- A key is shown once; here is its hash. 256 random bits need no salt and no slow hash.
CREATE TABLE fairpost.api_keys (
    id           text PRIMARY KEY CHECK (id ~ '^[a-z0-9]{12}$'),
    workspace    text NOT NULL REFERENCES fairpost.workspaces ON DELETE CASCADE,
    name         text NOT NULL,
    secret_hash  bytea NOT NULL,
    scopes       text[] NOT NULL CHECK (scopes <@ '{read,send,manage}' AND cardinality(scopes) > 0),
    per_minute   integer NOT NULL DEFAULT 600 CHECK (per_minute BETWEEN 1 AND 1000000),
    created_at   timestamptz NOT NULL,
    created_by   text NOT NULL,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz              -- to the minute
) WITH (fillfactor = 50);
CREATE INDEX api_keys_by_workspace ON fairpost.api_keys (workspace, created_at);

-- How much of its rate each caller has used: the moment at which it would be all there again. Lost in a crash, and nobody minds.
CREATE UNLOGGED TABLE fairpost.paces (
    caller  text PRIMARY KEY,
    full_at timestamptz NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0.02);

-- Whose name may stand in From: shown by a DNS record, or the operator's word.
CREATE TABLE fairpost.domains (
    workspace  text NOT NULL REFERENCES fairpost.workspaces ON DELETE CASCADE,
    domain     text NOT NULL CHECK (domain = lower(domain) AND length(domain) <= 253),
    token      text NOT NULL,
    created_at timestamptz NOT NULL,
    checked_at timestamptz,
    proven_at  timestamptz,
    proven_by  text,                      -- dns, or who granted it
    PRIMARY KEY (workspace, domain)
);

-- Who changed what. Written in the same commit as the change.
CREATE TABLE fairpost.audit (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL,
    workspace  text,                      -- null: the installation's
    who        text NOT NULL,
    action     text NOT NULL,
    subject    text NOT NULL,
    detail     jsonb,
    request_id text
);
CREATE INDEX audit_by_workspace ON fairpost.audit (workspace, id);
CREATE INDEX audit_of_invitations ON fairpost.audit (workspace, at) WHERE action IN ('member.invite', 'member.reset');

-- An account of a workspace has the workspace in its name, before a slash, and so has its pool: names never meet.
ALTER TABLE fairpost.accounts
    DROP CONSTRAINT accounts_name_check,
    ADD CONSTRAINT accounts_name_check CHECK (name ~ '^([a-z0-9][a-z0-9._-]{0,99}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
    ADD COLUMN workspace text GENERATED ALWAYS AS (CASE WHEN strpos(name, '/') > 0 THEN split_part(name, '/', 1) END) STORED,
    ADD CONSTRAINT accounts_stay_apart CHECK (strpos(name, '/') = 0 OR starts_with(pool, split_part(name, '/', 1) || '/'));
CREATE INDEX accounts_by_workspace ON fairpost.accounts (workspace) WHERE workspace IS NOT NULL;

CREATE INDEX events_by_workspace ON fairpost.events (workspace, id);

-- ── the wall: whoever is not the owner of these tables sees the rows of one workspace, the one that his transaction names ─────────────

DO $$
DECLARE
    named text;
BEGIN
    FOREACH named IN ARRAY ARRAY[
        'queue', 'emails', 'campaigns', 'campaign_streams', 'schedules', 'quotas', 'templates', 'sequences', 'prospects', 'lists', 'suppressions', 'soft_bounces',
        'senders', 'rules', 'activity', 'activity_days', 'submissions', 'events', 'api_keys', 'domains', 'audit', 'tallies', 'stirs'
    ] LOOP
        EXECUTE format('ALTER TABLE fairpost.%I ENABLE ROW LEVEL SECURITY', named);
        EXECUTE format('CREATE POLICY own_workspace ON fairpost.%I USING (workspace = (SELECT current_setting(''fairpost.workspace'', true)))', named);
    END LOOP;
END $$;

ALTER TABLE fairpost.workspaces ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.workspaces USING (name = (SELECT current_setting('fairpost.workspace', true)));

-- Its own, and the operator's: what those may send is part of every forecast.
ALTER TABLE fairpost.accounts ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.accounts USING (workspace IS NULL OR workspace = (SELECT current_setting('fairpost.workspace', true)))
    WITH CHECK (workspace = (SELECT current_setting('fairpost.workspace', true)));

-- What belongs to something else is seen with it.
ALTER TABLE fairpost.leases ENABLE ROW LEVEL SECURITY;
CREATE POLICY with_its_account ON fairpost.leases USING (EXISTS (SELECT FROM fairpost.accounts a WHERE a.id = account_id));
ALTER TABLE fairpost.charges ENABLE ROW LEVEL SECURITY;
CREATE POLICY with_its_account ON fairpost.charges USING (EXISTS (SELECT FROM fairpost.accounts a WHERE a.id = account_id));
ALTER TABLE fairpost.sequence_steps ENABLE ROW LEVEL SECURITY;
CREATE POLICY with_its_sequence ON fairpost.sequence_steps USING (EXISTS (SELECT FROM fairpost.sequences s WHERE s.id = sequence_id));
ALTER TABLE fairpost.campaign_steps ENABLE ROW LEVEL SECURITY;
CREATE POLICY with_its_campaign ON fairpost.campaign_steps USING (EXISTS (SELECT FROM fairpost.campaigns c WHERE c.id = campaign_id));
ALTER TABLE fairpost.list_members ENABLE ROW LEVEL SECURITY;
CREATE POLICY with_its_list ON fairpost.list_members USING (EXISTS (SELECT FROM fairpost.lists l WHERE l.id = list_id));
ALTER TABLE fairpost.stops ENABLE ROW LEVEL SECURITY;
CREATE POLICY with_its_prospect ON fairpost.stops USING (EXISTS (SELECT FROM fairpost.prospects p WHERE p.id = prospect_id));
ALTER TABLE fairpost.attempts ENABLE ROW LEVEL SECURITY;
CREATE POLICY with_its_email ON fairpost.attempts USING (
    EXISTS (SELECT FROM fairpost.queue q WHERE q.id = email_id) OR EXISTS (SELECT FROM fairpost.emails e WHERE e.id = email_id));
ALTER TABLE fairpost.contents ENABLE ROW LEVEL SECURITY;
CREATE POLICY with_its_campaign ON fairpost.contents USING (id IN (SELECT s.content_id FROM fairpost.campaign_steps s));
