-- How many e-mails wait on each route, by the tree's own counts and the notes it has not read yet: costs the number of
-- workspaces and of notes, never the number of e-mails. Routes with nothing waiting are left out.
-- `due`: something of it may go out now, as far as its sender is concerned. `next_at`: when the next becomes due.
CREATE OR REPLACE FUNCTION fairpost.waiting_by_route(p_now timestamptz DEFAULT NULL)
RETURNS TABLE (route text, waiting bigint, due boolean, next_at timestamptz)
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    watched CONSTANT text[] := ARRAY(SELECT DISTINCT r.workspace FROM fairpost.rules r WHERE greatest(r.held_until, r.throttled_until) > t);
BEGIN
    RETURN QUERY
    WITH noted AS (
        SELECT a.route, sum(a.n) AS n, min(a.due_at) FILTER (WHERE a.due_at < 'infinity' AND NOT (a.workspace = ANY (watched)
                   AND fairpost.is_held(a.workspace, a.domain, a.user_name, a.stream, t))) AS due_at
        FROM fairpost.arrivals a GROUP BY 1
    ), tree AS (
        SELECT root.route, sum(c.waiting) AS n, bool_or(c.busy > 0 AND coalesce(c.held_until <= t, true)) AS busy
        FROM fairpost.nodes root JOIN fairpost.nodes w ON w.parent = root.id JOIN fairpost.clocks c ON c.id = w.id
        WHERE root.parent = 0 GROUP BY 1
    ), asleep AS (
        SELECT o.route, leaf.wake_at
        FROM fairpost.routes o CROSS JOIN LATERAL (
            SELECT c.wake_at FROM (
                SELECT c.wake_at, c.flow FROM fairpost.clocks c WHERE c.route = o.route AND c.wake_at >= o.woken_until
                ORDER BY c.wake_at LIMIT 1000) c   -- a held sender may have many, and they do not count
            WHERE NOT EXISTS (SELECT FROM fairpost.nodes n JOIN fairpost.clocks h ON h.id = ANY (n.path) WHERE n.flow = c.flow AND h.held_until > t)
            ORDER BY c.wake_at LIMIT 1) leaf
    ), freed AS (
        SELECT DISTINCT c.route FROM fairpost.clocks c WHERE c.held_until <= t AND c.busy > 0   -- the next staging wakes it
    )
    SELECT x.route, x.n::bigint, coalesce(x.busy, false) OR x.freed OR coalesce(x.at <= t, false), CASE WHEN x.at > t THEN x.at END
    FROM (SELECT r.route, coalesce(tree.n, 0) + coalesce(noted.n, 0) AS n, tree.busy, freed.route IS NOT NULL AS freed,
                 least(noted.due_at, asleep.wake_at) AS at
          FROM (SELECT tree.route FROM tree UNION SELECT noted.route FROM noted) r
          LEFT JOIN tree ON tree.route = r.route LEFT JOIN noted ON noted.route = r.route
          LEFT JOIN asleep ON asleep.route = r.route LEFT JOIN freed ON freed.route = r.route) x
    WHERE x.n > 0 ORDER BY 1;
END $$;
