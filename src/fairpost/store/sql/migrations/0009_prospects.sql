-- People to write to, in lists.

CREATE TABLE fairpost.prospects (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace   text NOT NULL,
    address     text NOT NULL,          -- as it was written
    folded      text NOT NULL,          -- as it is compared
    external_id text CHECK (external_id !~ ':'),   -- in keys, parts are separated by it
    fields      jsonb NOT NULL DEFAULT '{}',
    timezone    text,
    is_paused   boolean NOT NULL DEFAULT false,
    created_at  timestamptz NOT NULL,
    changed_at  timestamptz NOT NULL
);
CREATE UNIQUE INDEX prospects_by_address ON fairpost.prospects (workspace, folded);
CREATE UNIQUE INDEX prospects_by_external_id ON fairpost.prospects (workspace, external_id) WHERE external_id IS NOT NULL;

CREATE TABLE fairpost.lists (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace  text NOT NULL,
    name       text NOT NULL CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
    created_at timestamptz NOT NULL,
    UNIQUE (workspace, name)
);

-- No foreign keys: a list comes in by the million, and each would be looked up twice. Whoever removes a prospect or a list
-- removes its rows here in the same commit.
CREATE TABLE fairpost.list_members (
    list_id     bigint NOT NULL,
    prospect_id bigint NOT NULL,
    PRIMARY KEY (list_id, prospect_id)
);
CREATE INDEX list_members_by_prospect ON fairpost.list_members (prospect_id);
