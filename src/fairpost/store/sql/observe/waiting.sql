-- Returns how many e-mails are waiting on each route, from the tree's own counts and the arrivals that it has not absorbed yet. The cost depends on the
-- number of workspaces and arrivals, never on the number of e-mails. Routes without waiting e-mails are omitted. `due` means that some e-mails are
-- due and their senders are not held. `next_at` is the time at which the next e-mail becomes due.
CREATE OR REPLACE FUNCTION fairpost.waiting_by_route(p_now timestamptz DEFAULT NULL)
RETURNS TABLE (route text, waiting bigint, due boolean, next_at timestamptz)
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    watched CONSTANT text[] := ARRAY(SELECT DISTINCT r.workspace FROM fairpost.sender_rules r WHERE greatest(r.held_until, r.throttled_until, r.closed_until) > t);
BEGIN
    RETURN QUERY
    WITH noted AS (
        SELECT a.route, sum(a.n) AS n, min(a.due_at) FILTER (WHERE a.due_at < 'infinity' AND NOT (a.workspace = ANY (watched)
                   AND fairpost.is_held(a.workspace, a.domain, a.user_name, a.stream, t))) AS due_at
        FROM fairpost.unread() a GROUP BY 1
    ), tree AS (
        SELECT root.route, sum(c.waiting) AS n, bool_or(c.busy > 0 AND coalesce(c.held_until <= t, true)) AS busy
        FROM fairpost.nodes root JOIN fairpost.nodes w ON w.parent = root.id CROSS JOIN LATERAL fairpost.node_state_now(ARRAY[w.id]) c
        WHERE root.parent = 0 GROUP BY 1
    ), asleep AS (
        SELECT o.route, leaf.wake_at
        FROM (SELECT DISTINCT tree.route FROM tree) r CROSS JOIN LATERAL fairpost.routes_now(ARRAY[r.route]) o CROSS JOIN LATERAL (
            SELECT c.wake_at FROM (
                SELECT c.wake_at, c.flow FROM fairpost.node_state c WHERE c.route = o.route AND c.wake_at >= o.woken_until
                ORDER BY c.wake_at LIMIT 1000) c   -- a held sender may have many due e-mails, which are not counted
            WHERE NOT EXISTS (SELECT FROM fairpost.nodes n CROSS JOIN LATERAL fairpost.node_state_now(n.path) h WHERE n.flow = c.flow AND h.held_until > t)
            ORDER BY c.wake_at LIMIT 1) leaf
    ), freed AS (
        SELECT DISTINCT c.route FROM fairpost.node_state c WHERE c.held_until <= t AND c.busy > 0   -- the next staging makes it active
    )
    SELECT x.route, x.n::bigint, coalesce(x.busy, false) OR x.freed OR coalesce(x.at <= t, false), CASE WHEN x.at > t THEN x.at END
    FROM (SELECT r.route, coalesce(tree.n, 0) + coalesce(noted.n, 0) AS n, tree.busy, freed.route IS NOT NULL AS freed,
                 least(noted.due_at, asleep.wake_at) AS at
          FROM (SELECT tree.route FROM tree UNION SELECT noted.route FROM noted) r
          LEFT JOIN tree ON tree.route = r.route LEFT JOIN noted ON noted.route = r.route
          LEFT JOIN asleep ON asleep.route = r.route LEFT JOIN freed ON freed.route = r.route) x
    WHERE x.n > 0 ORDER BY 1;
END $$;

-- Returns the same for one workspace, using a lookup in the index queue_waiting for each of its leaves. Includes held mail, because the workspace can
-- see its holds.
CREATE OR REPLACE FUNCTION fairpost.own_routes(p_workspace text, p_now timestamptz DEFAULT NULL)
RETURNS TABLE (route text, waiting bigint, due boolean, next_at timestamptz)
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    RETURN QUERY
    WITH leaves AS MATERIALIZED (
        SELECT n.route, n.flow, c.waiting::bigint AS n,
               EXISTS (SELECT FROM fairpost.node_state_now(n.path) h WHERE h.held_until > t) AS held
        FROM fairpost.nodes n CROSS JOIN LATERAL fairpost.node_state_now(ARRAY[n.id]) c WHERE n.workspace = p_workspace AND n.level = 'stream'
        UNION ALL
        SELECT a.route, a.flow, sum(a.n)::bigint, bool_and(fairpost.is_held(a.workspace, a.domain, a.user_name, a.stream, t))
        FROM fairpost.unread() a WHERE a.workspace = p_workspace GROUP BY 1, 2
    ), flows AS (
        SELECT DISTINCT l.route, l.flow FROM leaves l WHERE NOT l.held
    ), counted AS (
        SELECT l.route, sum(l.n)::bigint AS n FROM leaves l GROUP BY 1
    ), moments AS (
        SELECT f.route, bool_or(first.due_at <= t) AS due, min(first.due_at) FILTER (WHERE first.due_at > t) AS next_at
        FROM flows f CROSS JOIN LATERAL (
            SELECT q.due_at FROM fairpost.queue q WHERE q.flow = f.flow AND q.waiting AND q.due_at < 'infinity' ORDER BY q.due_at LIMIT 1) first
        GROUP BY 1
    )
    SELECT c.route, c.n, coalesce(m.due, false), m.next_at FROM counted c LEFT JOIN moments m USING (route) WHERE c.n > 0 ORDER BY 1;
END $$;

-- Returns how many e-mails of each class are waiting, for all workspaces or for one.
CREATE OR REPLACE FUNCTION fairpost.waiting_by_class(p_workspace text) RETURNS TABLE (class text, waiting bigint)
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT k.class::text, coalesce(sum(x.n), 0)::bigint
    FROM unnest(enum_range(NULL::fairpost.email_class)) k(class) LEFT JOIN (
        SELECT n.class, c.waiting AS n FROM fairpost.nodes n CROSS JOIN LATERAL fairpost.node_state_now(ARRAY[n.id]) c
        WHERE n.level = 'workspace' AND (p_workspace IS NULL OR n.workspace = p_workspace)
        UNION ALL
        SELECT a.class, a.n FROM fairpost.unread() a WHERE p_workspace IS NULL OR a.workspace = p_workspace) x ON x.class = k.class
    GROUP BY k.class ORDER BY k.class;
END $$;
