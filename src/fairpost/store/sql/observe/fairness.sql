-- The figures for `fairpost fairness`, taken from the tree's own counts, the arrivals that the tree has not absorbed, and hourly counters. The cost
-- depends on the number of senders and their hourly counters, never on the number of e-mails. `p_workspace` restricts the figures to one workspace
-- (null means all). Senders are hashed, not sorted, because sorting by name takes twice as long and the planner underestimates the number of senders.

-- Returns the number of waiting e-mails of each sender, in a single query, because reading the tree is the main cost. `of` is the kind of row:
--   spread             `times` users of this tier have `n` e-mails each, for computing inequality
--   workspace, user    the senders with the most e-mails, at most `p_max` of each kind; `name` is empty for a workspace
--   domain             the same for the From domains in those workspaces
CREATE OR REPLACE FUNCTION fairpost.waiting_by_sender(p_workspace text, p_max integer)
RETURNS TABLE (of text, workspace text, name text, tier smallint, n bigint, times bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET jit = off SET work_mem = '64MB' SET enable_sort = off SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    RETURN QUERY
    WITH users AS MATERIALIZED (
        SELECT x.workspace, x.user_name, sum(x.n) AS n
        FROM (SELECT d.workspace, c.key AS user_name, c.waiting::double precision AS n   -- sums faster than bigint, and just as exactly
              FROM fairpost.nodes d JOIN fairpost.node_state c ON c.parent = d.id   -- a domain's children are users, and there are fewer domains than users
              WHERE p_workspace IS NULL AND d.level = 'domain' AND c.waiting <> 0
              UNION ALL
              SELECT u.workspace, u.key, c.waiting FROM fairpost.nodes u JOIN fairpost.node_state c ON c.id = u.id
              WHERE u.workspace = p_workspace AND u.level = 'user'
              UNION ALL
              SELECT a.workspace, a.user_name, a.n FROM fairpost.arrivals a WHERE p_workspace IS NULL OR a.workspace = p_workspace) x
        GROUP BY 1, 2 HAVING sum(x.n) > 0
    ), workspaces AS MATERIALIZED (
        SELECT u.workspace, sum(u.n) AS n FROM users u GROUP BY 1 ORDER BY 2 DESC LIMIT p_max
    ), domains AS (
        SELECT x.workspace, x.domain, sum(x.n) AS n
        FROM (SELECT d.workspace, d.key AS domain, c.waiting AS n
              FROM workspaces w JOIN fairpost.nodes d ON d.workspace = w.workspace AND d.level = 'domain' JOIN fairpost.node_state c ON c.id = d.id
              UNION ALL   -- leaves that are attached below a domain other than the one in From
              SELECT l.workspace, x.domain, x.sign * c.waiting
              FROM workspaces w JOIN fairpost.leaves l ON l.workspace = w.workspace AND l.domain <> l.home JOIN fairpost.node_state c ON c.id = l.node,
                   LATERAL (VALUES (l.home, -1), (l.domain, 1)) x(domain, sign)
              UNION ALL
              SELECT a.workspace, a.domain, a.n FROM workspaces w JOIN fairpost.arrivals a ON a.workspace = w.workspace) x
        GROUP BY 1, 2 HAVING sum(x.n) > 0
    ), said AS MATERIALIZED (
        SELECT r.workspace, r.level, r.key, r.tier FROM fairpost.sender_rules r
        WHERE r.tier IS NOT NULL AND r.level IN ('workspace', 'user') AND (p_workspace IS NULL OR r.workspace = p_workspace)
    )
    SELECT 'spread', NULL, NULL, x.tier, x.n::bigint, count(*)
    FROM (SELECT coalesce(least(of_user.tier, of_all.tier), 1::smallint) AS tier, u.n FROM users u   -- same as in tier_of
          LEFT JOIN said of_user ON of_user.level = 'user' AND of_user.workspace = u.workspace AND of_user.key = u.user_name
          LEFT JOIN said of_all ON of_all.level = 'workspace' AND of_all.workspace = u.workspace) x
    GROUP BY x.tier, x.n
    UNION ALL
    SELECT 'workspace', w.workspace, '', NULL, w.n::bigint, 1 FROM workspaces w
    UNION ALL
    (SELECT 'domain', d.workspace, d.domain, NULL, d.n::bigint, 1 FROM domains d ORDER BY d.n DESC LIMIT p_max)
    UNION ALL
    (SELECT 'user', u.workspace, u.user_name, NULL, u.n::bigint, 1 FROM users u ORDER BY u.n DESC LIMIT p_max);
END $$;

-- Returns the senders whose e-mails have been served since the given time. E-mails sent, bounced and rejected are counted together. `is_fair` is true
-- for e-mails served by the fair queue, false for those served in order of arrival, and null for both together.
--   hour        the results for each hour and queue; `n` is the total
--   workspace, user    the senders with the most e-mails in both queues together, at most `p_max` of each kind
--   workspaces, users  `times` of them had `n` e-mails each in this queue, for computing inequality; rows for both queues only if both served mail
CREATE OR REPLACE FUNCTION fairpost.served_by_sender(p_workspace text, p_since timestamptz, p_max integer)
RETURNS TABLE (of text, is_fair boolean, workspace text, name text, hour timestamptz, n bigint, sent bigint, bounced bigint, rejected bigint, times bigint)
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET jit = off SET work_mem = '64MB' SET enable_sort = off SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    since CONSTANT timestamptz := fairpost.hour_of(p_since);   -- whole hours are counted
BEGIN
    RETURN QUERY
    WITH users AS MATERIALIZED (
        SELECT a.workspace, a.user_name, sum((a.sent + a.bounced + a.rejected)::double precision) AS n,
               sum(CASE WHEN fairpost.was_fair(a.writer) THEN 0 ELSE (a.sent + a.bounced + a.rejected)::double precision END) AS by_arrival
        FROM fairpost.activity a
        WHERE a.hour >= since AND a.sent + a.bounced + a.rejected > 0 AND (p_workspace IS NULL OR a.workspace = p_workspace) GROUP BY 1, 2
    ), workspaces AS MATERIALIZED (
        SELECT u.workspace, sum(u.n) AS n, sum(u.by_arrival) AS by_arrival FROM users u GROUP BY 1
    ), queues(is_fair) AS MATERIALIZED (   -- for each queue that served mail, and for both queues together
        SELECT true WHERE EXISTS (SELECT FROM workspaces w WHERE w.by_arrival < w.n)
        UNION ALL SELECT false WHERE EXISTS (SELECT FROM workspaces w WHERE w.by_arrival > 0)
        UNION ALL SELECT NULL WHERE EXISTS (SELECT FROM workspaces w WHERE w.by_arrival < w.n) AND EXISTS (SELECT FROM workspaces w WHERE w.by_arrival > 0)
    )
    SELECT 'hour', x.is_fair, NULL, NULL, x.hour, sum(x.sent + x.bounced + x.rejected), sum(x.sent), sum(x.bounced), sum(x.rejected), 1::bigint
    FROM (SELECT fairpost.was_fair(a.writer) AS is_fair, a.hour, a.sent, a.bounced, a.rejected FROM fairpost.activity a
          WHERE a.hour >= since AND a.sent + a.bounced + a.rejected > 0 AND (p_workspace IS NULL OR a.workspace = p_workspace)) x
    GROUP BY x.is_fair, x.hour
    UNION ALL
    (SELECT 'workspace', NULL, w.workspace, '', NULL, w.n::bigint, NULL, NULL, NULL, 1 FROM workspaces w ORDER BY w.n DESC LIMIT p_max)
    UNION ALL
    (SELECT 'user', NULL, u.workspace, u.user_name, NULL, u.n::bigint, NULL, NULL, NULL, 1 FROM users u ORDER BY u.n DESC LIMIT p_max)
    UNION ALL
    SELECT 'workspaces', x.is_fair, NULL, NULL, NULL, x.n::bigint, NULL, NULL, NULL, count(*)
    FROM (SELECT q.is_fair, CASE WHEN q.is_fair THEN w.n - w.by_arrival WHEN q.is_fair IS NULL THEN w.n ELSE w.by_arrival END AS n FROM queues q, workspaces w) x
    WHERE x.n > 0 GROUP BY x.is_fair, x.n
    UNION ALL
    SELECT 'users', x.is_fair, NULL, NULL, NULL, x.n::bigint, NULL, NULL, NULL, count(*)
    FROM (SELECT q.is_fair, CASE WHEN q.is_fair THEN u.n - u.by_arrival WHEN q.is_fair IS NULL THEN u.n ELSE u.by_arrival END AS n FROM queues q, users u) x
    WHERE x.n > 0 GROUP BY x.is_fair, x.n;
END $$;

-- For each hour since the given time, returns the number of users (`times`) with `n` e-mails that were sent, bounced or rejected. Like
-- served_by_sender, this uses the index activity_by_hour or, for one workspace, the primary key.
CREATE OR REPLACE FUNCTION fairpost.served_by_hour(p_workspace text, p_since timestamptz)
RETURNS TABLE (hour timestamptz, n bigint, times bigint)
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET jit = off SET work_mem = '64MB' SET enable_sort = off AS $$
    SELECT x.hour, x.n::bigint, count(*)
    FROM (SELECT a.hour, a.workspace, a.user_name, sum((a.sent + a.bounced + a.rejected)::double precision) AS n FROM fairpost.activity a
          WHERE a.hour >= fairpost.hour_of(p_since) AND a.sent + a.bounced + a.rejected > 0 AND (p_workspace IS NULL OR a.workspace = p_workspace)
          GROUP BY 1, 2, 3) x
    GROUP BY 1, 2
$$;

-- Returns histograms of the durations recorded since the given time, one for each kind and tier. The histograms cover all accounts or the accounts of
-- one workspace.
DROP FUNCTION IF EXISTS fairpost.measured_since(timestamptz);
CREATE OR REPLACE FUNCTION fairpost.measured_since(p_since timestamptz, p_workspace text DEFAULT NULL)
RETURNS TABLE (kind text, tier smallint, total_us bigint, buckets jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    RETURN QUERY
    WITH kept AS MATERIALIZED (
        SELECT m.* FROM fairpost.measures m
        WHERE m.hour >= fairpost.hour_of(p_since) AND (p_workspace IS NULL OR m.account_id IN (SELECT a.id FROM fairpost.accounts a WHERE a.workspace = p_workspace))
    ), counted AS (
        SELECT k.kind, k.tier, b.key, sum(b.value::bigint) AS n FROM kept k CROSS JOIN LATERAL jsonb_each_text(k.buckets) b GROUP BY 1, 2, 3
    )
    SELECT t.kind, t.tier, t.total_us, c.buckets
    FROM (SELECT k.kind, k.tier, sum(k.total_us)::bigint AS total_us FROM kept k GROUP BY 1, 2) t
    JOIN (SELECT c.kind, c.tier, jsonb_object_agg(c.key, c.n) AS buckets FROM counted c GROUP BY 1, 2) c USING (kind, tier);
END $$;

-- Returns throttled senders, latest first. `found_after` is the longest possible time from the event until the score exceeded the threshold, or null
-- if unknown. Uses the index senders_throttled.
CREATE OR REPLACE FUNCTION fairpost.throttled(p_workspace text, p_max integer)
RETURNS TABLE (
    workspace text, level text, name text, since timestamptz, until timestamptz, is_enforced boolean, is_by_hand boolean, score smallint, reasons text[],
    found_after interval
)
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET jit = off AS $$
    SELECT s.workspace, s.level::text, s.name, s.throttled_since, s.throttled_until, s.is_enforced, s.is_by_hand, s.score, s.reasons,
           CASE WHEN NOT s.is_by_hand AND o.at IS NOT NULL THEN greatest(s.throttled_since - o.at, interval '0') END
    FROM (SELECT s.* FROM fairpost.senders s WHERE s.throttled_since IS NOT NULL AND (p_workspace IS NULL OR s.workspace = p_workspace)
          ORDER BY s.throttled_since DESC, s.workspace, s.level, s.name LIMIT p_max) s
    LEFT JOIN fairpost.offences o ON s.level = 'user' AND o.workspace = s.workspace AND o.user_name = s.name
    ORDER BY s.throttled_since DESC, s.workspace, s.level, s.name
$$;

-- Returns how many senders are throttled, how many of these are `stopped` (none of their mail is sent now), how many would be throttled if throttling
-- were turned on, and how many names are held manually.
CREATE OR REPLACE FUNCTION fairpost.count_throttled(
    p_workspace text, p_now timestamptz DEFAULT NULL, OUT throttled bigint, OUT stopped bigint, OUT observed bigint, OUT held bigint
)
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    SELECT count(*) FILTER (WHERE s.is_enforced), count(*) FILTER (WHERE s.is_enforced AND s.throttled_until > t), count(*) FILTER (WHERE NOT s.is_enforced)
    INTO throttled, stopped, observed
    FROM fairpost.senders s WHERE s.throttled_since IS NOT NULL AND (p_workspace IS NULL OR s.workspace = p_workspace);
    held := (SELECT count(*) FROM fairpost.sender_rules r WHERE r.held_until > t AND (p_workspace IS NULL OR r.workspace = p_workspace));
END $$;
