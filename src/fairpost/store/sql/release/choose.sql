-- Senders that are blocked on an account advance together with the first sender that is not blocked, and stay at most one e-mail behind that sender.
-- Otherwise the virtual time would not advance if no other account served them, and newcomers, which start at that time, would come before all others
-- for a long time. This does not put the blocked senders at a disadvantage: they are still first in line for an account that may serve them.
CREATE OR REPLACE FUNCTION fairpost.take_along(roots fairpost.branch[], blocked text[]) RETURNS void
LANGUAGE sql AS $$
    UPDATE fairpost.node_state c SET vtime = behind.first, turn = c.turn + 1
    FROM (SELECT c.spot, first.vtime AS first
          FROM unnest(roots) r CROSS JOIN LATERAL (
              SELECT c.vtime FROM fairpost.node_state c
              WHERE c.parent = r.node AND c.busy > 0 AND c.held_until IS NULL AND c.vtime >= r.v AND c.key <> ALL (blocked) ORDER BY c.vtime LIMIT 1) first
          CROSS JOIN LATERAL (
              SELECT c.ctid AS spot FROM fairpost.node_state c
              WHERE c.parent = r.node AND c.busy > 0 AND c.held_until IS NULL AND c.vtime >= r.v AND c.vtime < first.vtime - 1 AND c.key = ANY (blocked)
              FOR UPDATE SKIP LOCKED) c) behind
    WHERE c.ctid = behind.spot
$$;

-- Returns the leaves to serve next and the number of e-mails to take from each. Locks the workspaces of these leaves. Returns null if there is no
-- mail for this account. `skipped` means that another claim holds some of the workspaces that are next. The others are then served for at most one
-- round, so that they do not get ahead. Null means that this was not checked.
CREATE OR REPLACE FUNCTION fairpost.choose(roots fairpost.branch[], p_limit integer, blocked text[], OUT branches fairpost.branch[], OUT skipped boolean)
LANGUAGE plpgsql AS $$
DECLARE
    first_ids bigint[];
    our_ids bigint[];
    workspaces tid[];
    edge double precision;
BEGIN
    branches := ARRAY(SELECT ROW(r.node, r.v, NULL, NULL, NULL, r.pinned, 0, p_limit, '{}', '{}', '{}', '{}')::fairpost.branch
                      FROM unnest(roots) r);
    -- Determines which children are next, including those held by other claims, and how far this batch takes them: one round, or more if there are
    -- few children.
    SELECT array_agg(n.id), n.edge INTO first_ids, edge
    FROM (SELECT w.id, w.lag, min(w.lag) OVER () + greatest(1, max(w.quota) OVER () / sum(w.weight) OVER ()) + 1e-6 AS edge
          FROM unnest(branches) r CROSS JOIN LATERAL (
              SELECT c.id, c.vtime - r.v AS lag, c.weight, r.quota FROM fairpost.node_state c
              WHERE c.parent = r.node AND c.busy > 0 AND c.held_until IS NULL AND c.vtime >= r.v AND c.key <> ALL (blocked)
              ORDER BY c.vtime LIMIT r.quota) w) n
    WHERE n.lag < n.edge - 1e-9 GROUP BY n.edge;
    IF first_ids IS NULL THEN
        branches := NULL;
        RETURN;
    END IF;
    SELECT array_agg(w.spot), array_agg(w.id) INTO workspaces, our_ids FROM unnest(branches) r CROSS JOIN LATERAL (
        SELECT c.ctid AS spot, c.id FROM fairpost.node_state c
        WHERE c.parent = r.node AND c.busy > 0 AND c.held_until IS NULL AND c.vtime >= r.v AND c.vtime <= r.v + edge AND c.key <> ALL (blocked)
        ORDER BY c.vtime LIMIT r.quota FOR UPDATE SKIP LOCKED) w;
    skipped := NOT coalesce(first_ids <@ our_ids, false);
    branches := fairpost.share_out(branches, 1, coalesce(workspaces, '{}'), CASE WHEN skipped THEN edge END);
    IF branches IS NULL THEN
        RETURN;
    END IF;
    FOR depth IN 2..4 LOOP
        branches := fairpost.share_out(branches, depth, NULL, NULL);
    END LOOP;
END $$;

DROP FUNCTION IF EXISTS fairpost.roots_of(text[], fairpost.email_class);
CREATE OR REPLACE FUNCTION fairpost.roots_of(routes text[], p_class fairpost.email_class, lane text) RETURNS fairpost.branch[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT array_agg(ROW(n.id, c.v, NULL, NULL, NULL, left(n.route, 1) = '@', 0, 0, '{}', '{}', '{}', '{}')::fairpost.branch)
            FROM (SELECT fairpost.root_key(r, p_class, lane) AS key FROM unnest(routes) r) r
            -- the key is compared as one row, to keep the planner from using the index on name, which also contains keys
            CROSS JOIN LATERAL (SELECT n.id, n.route FROM fairpost.nodes n WHERE (n.parent, n.key) BETWEEN (0, r.key) AND (0, r.key) LIMIT 1) n
            -- v only increases, so the newest version of the row comes first, and old versions are not read
            CROSS JOIN LATERAL (SELECT c.v FROM fairpost.node_state c WHERE c.id = n.id AND c.parent = 0 ORDER BY c.v DESC LIMIT 1) c);
END $$;
