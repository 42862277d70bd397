-- Returns how many e-mails each block holds back on each route, largest number first. A block holds back mail for an account that the sender is
-- blocked from using. Mail for a pool is held back if the sender is blocked from every account in the pool that could send it. The numbers come from
-- the tree and the arrivals, as in waiting_by_route, never from the queue. `p_workspace` restricts the result to one workspace.
CREATE OR REPLACE FUNCTION fairpost.blocked_mail(p_max integer, p_now timestamptz DEFAULT NULL, p_workspace text DEFAULT NULL)
RETURNS TABLE (route text, account_id bigint, account text, workspace text, since timestamptz, until timestamptz, reason text, params jsonb, waiting bigint)
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    RETURN QUERY
    WITH block AS MATERIALIZED (
        SELECT b.*, a.name AS account, a.pool, a.status = 'active' OR a.status_until IS NOT NULL AS sends FROM fairpost.blocks b JOIN fairpost.accounts a ON a.id = b.account_id
        WHERE b.until > t AND (p_workspace IS NULL OR b.workspace = p_workspace)
    ), sending AS (
        SELECT a.pool, count(*) AS n FROM fairpost.accounts a
        WHERE a.pool IN (SELECT b.pool FROM block b) AND (a.status = 'active' OR a.status_until IS NOT NULL) GROUP BY 1
    ), shut AS (
        SELECT b.pool, b.workspace FROM block b JOIN sending s USING (pool) WHERE b.sends GROUP BY b.pool, b.workspace, s.n HAVING count(*) = s.n
    ), stuck AS (
        SELECT '@' || b.account AS route, b.* FROM block b
        UNION ALL
        SELECT * FROM (SELECT DISTINCT ON (b.pool, b.workspace) b.pool AS route, b.* FROM block b JOIN shut s USING (pool, workspace)
                       WHERE b.sends ORDER BY b.pool, b.workspace, b.until, b.account) first   -- the block that ends first
    )
    SELECT s.route, s.account_id, s.account, s.workspace, s.since, nullif(s.until, 'infinity'), s.reason, s.params, w.n
    FROM stuck s CROSS JOIN LATERAL (
        SELECT coalesce((SELECT sum(c.waiting) FROM fairpost.nodes n JOIN fairpost.node_state c ON c.id = n.id
                         WHERE n.workspace = s.workspace AND n.level = 'workspace' AND n.route = s.route), 0)::bigint
             + coalesce((SELECT sum(a.n) FROM fairpost.arrivals a WHERE a.route = s.route AND a.workspace = s.workspace), 0)::bigint AS n) w
    WHERE w.n > 0 ORDER BY w.n DESC, 1, 4 LIMIT p_max;
END $$;
