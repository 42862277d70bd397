-- As in 0027, for the tree: the clock of a node and the row of a route are found by their newest version. Staging looks them up by their key, with each claim
-- that finds something new; under a transaction held open it walked every version. No unique index: a node has one clock (staging alone adds it, under the
-- lock of its route), and a route one row (`add_route`, under a lock).
ALTER TABLE fairpost.clocks ADD COLUMN turn bigint NOT NULL DEFAULT 0;
CREATE INDEX clocks_newest ON fairpost.clocks (id, turn);
DROP INDEX fairpost.clocks_by_id;

ALTER TABLE fairpost.routes ADD COLUMN turn bigint NOT NULL DEFAULT 0;
CREATE INDEX routes_newest ON fairpost.routes (route, turn);
ALTER TABLE fairpost.routes DROP CONSTRAINT routes_pkey;

-- The quota of a workspace's day changes with every e-mail of its campaigns. Days are added by `lay_calendar`, under the lock of the workspace's rules.
ALTER TABLE fairpost.quotas ADD COLUMN turn bigint NOT NULL DEFAULT 0;
CREATE INDEX quotas_newest ON fairpost.quotas (workspace, starts_at, turn);
ALTER TABLE fairpost.quotas DROP CONSTRAINT quotas_pkey;
