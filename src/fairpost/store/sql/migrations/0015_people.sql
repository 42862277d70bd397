-- People who sign in: those who run the service, and the members of workspaces. Of secrets, only hashes are kept.

CREATE TABLE fairpost.people (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace       text CHECK (workspace <> ''),   -- null: runs the service
    address         text NOT NULL,                  -- as it was written
    folded          text NOT NULL,                  -- as it is compared
    name            text NOT NULL DEFAULT '' CHECK (length(name) <= 80),
    role            text NOT NULL CHECK (role IN ('admin', 'manager', 'sender', 'viewer')),
    password_hash   text,                           -- null until one was chosen
    created_at      timestamptz NOT NULL,
    disabled_at     timestamptz,
    last_sign_in_at timestamptz,
    CONSTRAINT people_admins_have_no_workspace CHECK ((role = 'admin') = (workspace IS NULL))
);
CREATE UNIQUE INDEX people_by_address ON fairpost.people (coalesce(workspace, ''), folded);

-- Links that work once.
CREATE TABLE fairpost.invitations (
    token_hash bytea PRIMARY KEY,
    person_id  bigint REFERENCES fairpost.people ON DELETE CASCADE,
    purpose    text NOT NULL CHECK (purpose IN ('invite', 'reset', 'setup')),
    expires_at timestamptz NOT NULL,
    used_at    timestamptz,
    CONSTRAINT invitations_are_for_somebody CHECK ((purpose = 'setup') = (person_id IS NULL))
);
CREATE INDEX invitations_by_person ON fairpost.invitations (person_id);
CREATE UNIQUE INDEX invitations_one_setup ON fairpost.invitations (purpose) WHERE purpose = 'setup';

-- Begun with the right password, waiting for the code.
CREATE TABLE fairpost.sign_ins (
    token_hash      bytea PRIMARY KEY,          -- of the secret that the browser keeps
    person_id       bigint NOT NULL REFERENCES fairpost.people ON DELETE CASCADE,
    code_hash       bytea NOT NULL,             -- of the browser's secret and the code
    local_code_hash bytea,                      -- of token_hash and a code that was made on the server
    codes           smallint NOT NULL DEFAULT 1,   -- so many were sent
    tries           smallint NOT NULL DEFAULT 0,   -- so many were wrong
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    used_at         timestamptz
);
CREATE INDEX sign_ins_by_person ON fairpost.sign_ins (person_id, created_at);

CREATE TABLE fairpost.sessions (
    token_hash bytea PRIMARY KEY,
    person_id  bigint NOT NULL REFERENCES fairpost.people ON DELETE CASCADE,
    csrf_hash  bytea NOT NULL,
    created_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    agent      text NOT NULL CHECK (length(agent) <= 200)
);
CREATE INDEX sessions_by_person ON fairpost.sessions (person_id, created_at);

-- Those that failed, and those being judged just now. Keys are hashes: in the wrong field, people type passwords.
CREATE TABLE fairpost.sign_in_attempts (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    address_key bytea NOT NULL,
    client_key  bytea,
    at          timestamptz NOT NULL
);
CREATE INDEX sign_in_attempts_by_address ON fairpost.sign_in_attempts (address_key, at);
CREATE INDEX sign_in_attempts_by_client ON fairpost.sign_in_attempts (client_key, at);
CREATE INDEX sign_in_attempts_by_time ON fairpost.sign_in_attempts (at);
