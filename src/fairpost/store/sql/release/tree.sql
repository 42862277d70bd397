-- Activates and deactivates nodes in the flow tree. A node is *active* if it has mail to serve (busy > 0) and is not held; its parent's `busy` counts the
-- active children. Callers have locked the workspaces concerned.

-- Returns the newest state version for each of these nodes (see migration 0033). `spot` is the location of the row, for an update by the transaction
-- that has locked the workspace.
CREATE OR REPLACE FUNCTION fairpost.node_state_now(ids bigint[])
RETURNS TABLE (spot tid, id bigint, parent bigint, route text, vtime double precision, v double precision, busy integer, waiting bigint, wake_at timestamptz, held_until timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT c.* FROM unnest(ids) n(id) CROSS JOIN LATERAL (
        SELECT c.ctid, c.id, c.parent, c.route, c.vtime, c.v, c.busy, c.waiting, c.wake_at, c.held_until FROM fairpost.node_state c WHERE c.id = n.id ORDER BY c.turn DESC LIMIT 1) c
$$;

-- Locks and returns the nodes that are not locked. Reads only the newest version of each node. Otherwise, if the newest version is locked and
-- skipped, all older versions would be scanned.
CREATE OR REPLACE FUNCTION fairpost.lock_free(ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(SELECT c.id FROM unnest(ids) n(id)
                 CROSS JOIN LATERAL (SELECT c.turn FROM fairpost.node_state c WHERE c.id = n.id ORDER BY c.turn DESC LIMIT 1) newest
                 CROSS JOIN LATERAL (SELECT c.id FROM fairpost.node_state c WHERE c.id = n.id AND c.turn >= newest.turn FOR UPDATE SKIP LOCKED) c);
END $$;

-- Called when these nodes have become active. Each node starts at its parent's current virtual time, so that inactive nodes gain no credit. Parents
-- that had no mail to serve also become active. Nodes that start together are separated by offsets of at most a thousandth of an e-mail, so that the
-- point at which scans begin advances with every node served, instead of once per round.
CREATE OR REPLACE FUNCTION fairpost.activate(ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    depth integer;
    now_at bigint[];
    above bigint[];   -- named in each statement, because a plain join may read all nodes, depending on the planner's statistics
BEGIN
    FOR depth IN REVERSE 4..1 LOOP
        SELECT array_agg(n.id), array_agg(DISTINCT n.parent) INTO now_at, above   -- OFFSET 0 keeps the outer DISTINCT from choosing the index of the inner query
        FROM (SELECT n.id, n.parent FROM fairpost.nodes n WHERE n.id = ANY (ids) AND cardinality(n.path) = depth OFFSET 0) n;
        CONTINUE WHEN now_at IS NULL;
        UPDATE fairpost.node_state c SET vtime = s.start, turn = c.turn + 1
        FROM (SELECT own.spot, own.vtime, p.v + (own.id % 1000000) * 1e-9 AS start
              FROM fairpost.node_state_now(now_at) own CROSS JOIN LATERAL (SELECT p.v FROM fairpost.node_state p WHERE p.id = own.parent ORDER BY p.turn DESC LIMIT 1) p) s
        WHERE c.ctid = s.spot AND s.vtime < s.start;
        EXIT WHEN depth = 1;
        WITH woken AS (
            UPDATE fairpost.node_state p SET busy = p.busy + up.n, turn = p.turn + 1
            FROM (SELECT o.spot, child.n FROM fairpost.node_state_now(above) o
                  JOIN (SELECT c.parent, count(*)::integer AS n FROM fairpost.node_state_now(now_at) c GROUP BY c.parent) child ON child.parent = o.id) up
            WHERE p.ctid = up.spot
            RETURNING p.id, p.busy = up.n AND p.held_until IS NULL AS first
        )
        SELECT ids || coalesce(array_agg(w.id), '{}') INTO ids FROM woken w WHERE w.first;
    END LOOP;
END $$;

-- Called when these nodes have become inactive. Parents left without mail to serve also become inactive.
CREATE OR REPLACE FUNCTION fairpost.deactivate(ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    depth integer;
    now_at bigint[];
    above bigint[];   -- named in each statement, because a plain join may read all nodes, depending on the planner's statistics
BEGIN
    FOR depth IN REVERSE 4..2 LOOP
        SELECT array_agg(n.id), array_agg(DISTINCT n.parent) INTO now_at, above   -- OFFSET 0 keeps the outer DISTINCT from choosing the index of the inner query
        FROM (SELECT n.id, n.parent FROM fairpost.nodes n WHERE n.id = ANY (ids) AND cardinality(n.path) = depth OFFSET 0) n;
        CONTINUE WHEN now_at IS NULL;
        WITH left_over AS (
            UPDATE fairpost.node_state p SET busy = p.busy - up.n, turn = p.turn + 1
            FROM (SELECT o.spot, child.n FROM fairpost.node_state_now(above) o
                  JOIN (SELECT c.parent, count(*)::integer AS n FROM fairpost.node_state_now(now_at) c GROUP BY c.parent) child ON child.parent = o.id) up
            WHERE p.ctid = up.spot
            RETURNING p.id, p.busy = 0 AND p.held_until IS NULL AS last
        )
        SELECT ids || coalesce(array_agg(l.id), '{}') INTO ids FROM left_over l WHERE l.last;
    END LOOP;
END $$;
