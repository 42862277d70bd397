-- Keys that sign the mail of a domain. The secret is sealed as the accounts' passwords are; the database knows no key of its own.
CREATE TABLE fairpost.dkim_keys (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace  text NOT NULL,
    domain     text NOT NULL,
    selector   text NOT NULL,
    algorithm  text NOT NULL CHECK (algorithm IN ('rsa', 'ed25519')),
    public     text NOT NULL,
    secret     text,                      -- null: retired
    created_at timestamptz NOT NULL,
    checked_at timestamptz,
    active_at  timestamptz,               -- its record was seen in the DNS, and it signs
    retired_at timestamptz,               -- another signs instead; its record stays for mail under way
    FOREIGN KEY (workspace, domain) REFERENCES fairpost.domains ON DELETE CASCADE,
    UNIQUE (domain, selector),
    CHECK (secret IS NOT NULL OR retired_at IS NOT NULL)
);
CREATE INDEX dkim_keys_by_domain ON fairpost.dkim_keys (workspace, domain);
ALTER TABLE fairpost.dkim_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.dkim_keys USING (workspace = (SELECT current_setting('fairpost.workspace', true)));
