-- What receivers will find in the DNS about a domain, as it was found last: [{"what", "grade", "code", "params"}].
CREATE TABLE fairpost.domain_health (
    workspace text NOT NULL,
    domain    text NOT NULL,
    findings  jsonb NOT NULL,
    at        timestamptz NOT NULL,
    PRIMARY KEY (workspace, domain),
    FOREIGN KEY (workspace, domain) REFERENCES fairpost.domains ON DELETE CASCADE
);
ALTER TABLE fairpost.domain_health ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.domain_health USING (workspace = (SELECT current_setting('fairpost.workspace', true)));
