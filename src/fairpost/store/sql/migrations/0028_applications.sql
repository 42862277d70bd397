-- Which workspaces a login of the server may act for through SQL, with the role fairpost_app or the same rights; its members may do the same. '*': all of
-- them, it is the operator's own. A login that is not named here acts for `default`.
CREATE TABLE fairpost.applications (
    role_name  text NOT NULL,
    workspace  text NOT NULL CHECK (length(workspace) BETWEEN 1 AND 200),
    created_at timestamptz NOT NULL,
    PRIMARY KEY (role_name, workspace)
);
ALTER TABLE fairpost.applications ENABLE ROW LEVEL SECURITY;   -- the owner's alone

-- Logins that could enqueue until now were the operator's own, and stay it. A role that may merely read everything on the server was not meant by that.
INSERT INTO fairpost.applications (role_name, workspace, created_at)
SELECT DISTINCT r.rolname, '*', clock_timestamp()
FROM pg_namespace n CROSS JOIN aclexplode(n.nspacl) granted
JOIN pg_roles r ON granted.grantee = 0 OR pg_has_role(r.oid, granted.grantee, 'MEMBER')
WHERE n.nspname = 'fairpost' AND granted.privilege_type = 'USAGE'
AND NOT r.rolsuper AND NOT pg_has_role(r.oid, n.nspowner, 'MEMBER') AND r.rolname !~ '^pg_' AND r.rolname NOT IN ('fairpost_tenant', 'fairpost_app');

-- Whose a shared content is. One that is not here is the operator's, or that of the e-mail with the same id. A table of its own, as the next: those that
-- callers write to in their transactions cannot be altered while one is open.
CREATE TABLE fairpost.shared_contents (
    content_id bigint PRIMARY KEY,
    workspace  text NOT NULL
);
ALTER TABLE fairpost.shared_contents ENABLE ROW LEVEL SECURITY;

-- Of the request that came with a key, where requests are compared. A key that is not here matches any.
CREATE TABLE fairpost.request_fingerprints (
    key_hash    uuid PRIMARY KEY,
    fingerprint bigint NOT NULL
);
ALTER TABLE fairpost.request_fingerprints ENABLE ROW LEVEL SECURITY;
