-- The figures that a workspace may see about its own queue, taken from the tree's counts, the arrivals that the tree has not absorbed, and hourly
-- counters. The cost depends on the number of senders in the workspace, never on the number of e-mails.

-- Returns how many e-mails of a workspace or one of its users are waiting, whether scheduled or ready.
CREATE OR REPLACE FUNCTION fairpost.waiting_behind(p_workspace text, p_user text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    IF p_user IS NOT NULL THEN
        RETURN fairpost.waiting_of(p_workspace, p_user);
    END IF;
    RETURN coalesce((SELECT sum(c.waiting) FROM fairpost.nodes n JOIN fairpost.node_state c ON c.id = n.id WHERE n.workspace = p_workspace AND n.level = 'workspace'), 0)
         + coalesce((SELECT sum(a.n) FROM fairpost.arrivals a WHERE a.workspace = p_workspace), 0);
END $$;

-- Returns a workspace's queue by class. `ready` is counted up to `p_max`. `oldest_at` is the due time of the oldest due e-mail, whether or not it is
-- held. Reads the index queue_waiting for each leaf, and queue_held for claimed e-mails.
CREATE OR REPLACE FUNCTION fairpost.own_queue(p_workspace text, p_max integer, p_now timestamptz DEFAULT NULL)
RETURNS TABLE (class text, waiting bigint, ready bigint, oldest_at timestamptz, claimed bigint, sending bigint, in_doubt bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    RETURN QUERY
    WITH noted AS MATERIALIZED (
        SELECT a.class, a.flow, a.n FROM fairpost.arrivals a WHERE a.workspace = p_workspace
    ), flows AS MATERIALIZED (
        SELECT n.class, n.flow FROM fairpost.nodes n WHERE n.workspace = p_workspace AND n.level = 'stream'
        UNION SELECT a.class, a.flow FROM noted a
    ), held AS MATERIALIZED (
        SELECT q.class, q.state FROM (SELECT q.class, q.state, q.workspace FROM fairpost.queue q WHERE NOT q.waiting OFFSET 0) q WHERE q.workspace = p_workspace
    )
    SELECT k.class::text,
           (coalesce((SELECT sum(c.waiting) FROM fairpost.nodes n JOIN fairpost.node_state c ON c.id = n.id
                      WHERE n.workspace = p_workspace AND n.level = 'workspace' AND n.class = k.class), 0)
            + coalesce((SELECT sum(a.n) FROM noted a WHERE a.class = k.class), 0))::bigint,
           (SELECT count(*) FROM (SELECT FROM flows f CROSS JOIN LATERAL (
                SELECT FROM fairpost.queue q WHERE q.flow = f.flow AND q.waiting AND q.due_at <= t LIMIT p_max) q WHERE f.class = k.class LIMIT p_max) r),
           (SELECT min(q.due_at) FROM flows f CROSS JOIN LATERAL (
                SELECT q.due_at FROM fairpost.queue q WHERE q.flow = f.flow AND q.waiting ORDER BY q.due_at LIMIT 1) q WHERE f.class = k.class AND q.due_at <= t),
           (SELECT count(*) FROM held h WHERE h.class = k.class AND h.state = 'claimed'),
           (SELECT count(*) FROM held h WHERE h.class = k.class AND h.state = 'sending'),
           (SELECT count(*) FROM held h WHERE h.class = k.class AND h.state = 'in_doubt')
    FROM unnest(enum_range(NULL::fairpost.email_class)) k(class);
END $$;

-- Returns the outcomes of a workspace's e-mails since `p_since`. The hour that contains `p_since` is counted as a whole. `failed` counts only the
-- newest `p_max` failed e-mails, which are found with the index emails_not_sent.
CREATE OR REPLACE FUNCTION fairpost.own_outcomes(
    p_workspace text, p_since timestamptz, p_max integer, OUT since timestamptz, OUT sent bigint, OUT bounced bigint, OUT rejected bigint, OUT failed bigint
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    since := fairpost.hour_of(p_since);
    SELECT coalesce(sum(a.sent), 0), coalesce(sum(a.bounced), 0), coalesce(sum(a.rejected), 0) INTO sent, bounced, rejected
    FROM fairpost.activity a WHERE a.workspace = p_workspace AND a.hour >= own_outcomes.since;
    failed := (SELECT count(*) FROM (SELECT e.finished_at FROM fairpost.emails e WHERE e.workspace = p_workspace AND e.state = 'failed' ORDER BY e.id DESC LIMIT p_max) f
               WHERE f.finished_at >= own_outcomes.since);
END $$;
