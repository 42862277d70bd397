-- Returns the names that are held now. For each name, returns the reason, the end of the hold (null: until released) and the number of e-mails
-- waiting below the name. Names with the most e-mails come first. `routes` are the routes of those e-mails. `kind` is `held` (manually), `throttled`
-- or `closed` (outside a campaign's window). If several kinds apply, `kind` is the one that lasts longest. The numbers come from the tree and the
-- arrivals, as in waiting_by_route, never from the queue. `p_workspace` restricts the result to one workspace.
DROP FUNCTION IF EXISTS fairpost.holds(integer, timestamptz);
DROP FUNCTION IF EXISTS fairpost.holds(integer, timestamptz, text);
CREATE OR REPLACE FUNCTION fairpost.holds(p_max integer, p_now timestamptz DEFAULT NULL, p_workspace text DEFAULT NULL)
RETURNS TABLE (workspace text, level fairpost.node_level, key text, until timestamptz, kind text, reason text, params jsonb, waiting bigint, routes text[])
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    RETURN QUERY
    WITH held AS (
        SELECT r.workspace, r.level, r.key, s.until, s.kind, s.reason, s.params
        FROM fairpost.sender_rules r CROSS JOIN LATERAL fairpost.stops_by(r) WITH ORDINALITY s
        WHERE greatest(r.held_until, r.throttled_until, r.closed_until) > t AND s.ordinality = 1 AND (p_workspace IS NULL OR r.workspace = p_workspace)
    ), noted AS MATERIALIZED (
        SELECT a.workspace, a.domain, a.user_name, a.stream, a.route, sum(a.n) AS n FROM fairpost.arrivals a
        WHERE a.workspace IN (SELECT h.workspace FROM held h) GROUP BY 1, 2, 3, 4, 5
    )
    SELECT h.workspace, h.level, h.key, nullif(h.until, 'infinity'), h.kind, h.reason, h.params,
           (coalesce(tree.n, 0) + coalesce(notes.n, 0))::bigint, ARRAY(SELECT unnest(tree.routes) UNION SELECT unnest(notes.routes) ORDER BY 1)
    FROM held h
    CROSS JOIN LATERAL (
        SELECT sum(c.waiting) AS n, array_agg(DISTINCT named.route) FILTER (WHERE c.waiting > 0) AS routes
        FROM (SELECT n.id FROM fairpost.nodes n WHERE n.workspace = h.workspace AND h.level IN ('workspace', 'user') AND n.level = h.level
                  AND n.key = CASE h.level WHEN 'workspace' THEN h.workspace ELSE h.key END
              UNION ALL SELECT l FROM fairpost.leaves_of(h.workspace, h.level, h.key) l) n
        JOIN fairpost.nodes named ON named.id = n.id JOIN fairpost.node_state c ON c.id = n.id) tree
    CROSS JOIN LATERAL (
        SELECT sum(n.n) AS n, array_agg(DISTINCT n.route) FILTER (WHERE n.n > 0) AS routes FROM noted n WHERE n.workspace = h.workspace
        AND h.key = CASE h.level WHEN 'domain' THEN n.domain WHEN 'user' THEN n.user_name WHEN 'stream' THEN n.stream ELSE '' END) notes
    ORDER BY 8 DESC, 1, 2, 3 LIMIT p_max;
END $$;
