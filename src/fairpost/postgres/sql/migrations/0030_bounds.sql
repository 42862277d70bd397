-- What a workspace may use of the operator's, and in whose name.

-- A pool of the operator's that a workspace may send through, and what may stand in From there: addresses and domains (folded), `proven` (what the workspace
-- has shown to be its own) and `account` (mail that names no From goes out with the account's own address).
CREATE TABLE fairpost.loans (
    workspace text NOT NULL REFERENCES fairpost.workspaces ON DELETE CASCADE,
    pool      text NOT NULL,
    senders   text[] NOT NULL CHECK (cardinality(senders) BETWEEN 1 AND 100),
    PRIMARY KEY (workspace, pool)
);
ALTER TABLE fairpost.loans ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.loans USING (workspace = (SELECT current_setting('fairpost.workspace', true)));

-- What was lent before goes on as it was: nobody's mail stops.
INSERT INTO fairpost.loans (workspace, pool, senders) SELECT DISTINCT w.name, p, '{proven,account}'::text[] FROM fairpost.workspaces w, unnest(w.pools) p;
ALTER TABLE fairpost.workspaces DROP COLUMN pools;
