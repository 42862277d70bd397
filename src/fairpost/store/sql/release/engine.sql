-- How enqueuers wake engines, and how engines find out where workers are needed.

-- Registers this engine as awake or asleep. Returns the number of engines, including this one. Deletes dead engines.
CREATE OR REPLACE FUNCTION fairpost.engine_here(p_engine text, p_asleep boolean, p_now timestamptz DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    INSERT INTO fairpost.engines AS e (id, seen_at, asleep, started_at) VALUES (p_engine, t, p_asleep, t)
    ON CONFLICT (id) DO UPDATE SET seen_at = t, asleep = p_asleep
    WHERE e.asleep <> p_asleep OR e.seen_at < t - interval '2 seconds';
    DELETE FROM fairpost.engines e WHERE e.ctid IN (
        SELECT d.ctid FROM fairpost.engines d WHERE d.seen_at < t - interval '1 minute' AND d.asked IS NULL FOR UPDATE SKIP LOCKED);
    RETURN (SELECT count(*) FROM fairpost.engines e WHERE e.seen_at > t - interval '5 seconds');
END $$;

CREATE OR REPLACE FUNCTION fairpost.engine_gone(p_engine text) RETURNS void
LANGUAGE sql AS $$
    DELETE FROM fairpost.engines e WHERE e.id = p_engine
$$;

-- Releases a dead engine. The caller has proof that none of its processes is alive, so there is no need to wait for its leases to expire. `p_heir` is
-- the engine that has taken over the dead engine's state. If the dead engine was asked about the server, the heir answers instead.
CREATE OR REPLACE FUNCTION fairpost.reclaim_engine(p_engine text, p_heir text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    held record;
    n integer := 0;
BEGIN
    FOR held IN SELECT l.account_id, l.epoch FROM fairpost.leases l WHERE l.owner = p_engine ORDER BY l.account_id LOOP
        n := n + fairpost.drop_lease(held.account_id, held.epoch)::integer;
    END LOOP;
    UPDATE fairpost.webhooks w SET leased_until = NULL WHERE w.leased_by = p_engine AND w.leased_until IS NOT NULL;
    UPDATE fairpost.engines e SET heir = p_heir WHERE e.heir = p_engine OR e.id = p_engine AND e.asked IS NOT NULL;
    DELETE FROM fairpost.engines e WHERE e.id = p_engine AND e.asked IS NULL;
    RETURN n;
END $$;

-- Wakes sleeping engines when the transaction commits. At commit, a NOTIFY locks the whole database, so it is sent only while an engine is asleep,
-- and never for a large batch of e-mails. Engines find all other mail when they check, every second or two.
CREATE OR REPLACE FUNCTION fairpost.wake_engines(emails jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF jsonb_array_length(emails) <= 10 AND EXISTS (SELECT FROM fairpost.engines e WHERE e.asleep) THEN
        PERFORM pg_notify('fairpost', route)
        FROM (SELECT DISTINCT coalesce('@' || (e ->> 'account'), e ->> 'pool', 'default') AS route
              FROM jsonb_array_elements(emails) e WHERE jsonb_typeof(e) = 'object') r
        WHERE octet_length(route) < 1000;
    END IF;
END $$;

-- Returns the routes with mail that may be sent now, and the time at which mail on each other route becomes due. Returns no routes while everything
-- is paused. The cost depends on the number of routes.
CREATE OR REPLACE FUNCTION fairpost.routes_with_work(p_now timestamptz DEFAULT NULL)
RETURNS TABLE (route text, due boolean, next_at timestamptz)
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    RETURN QUERY
    WITH noted AS (
        SELECT a.route, min(a.due_at) AS at FROM fairpost.unread() a WHERE a.due_at < 'infinity' GROUP BY 1
    ), tree AS (
        SELECT root.route, bool_or(first.is_there IS NOT NULL) AS busy FROM fairpost.nodes root
        CROSS JOIN LATERAL (SELECT c.v FROM fairpost.node_state c WHERE c.id = root.id AND c.parent = 0 ORDER BY c.v DESC LIMIT 1) now_at
        LEFT JOIN LATERAL (   -- scans begin here, because the index may still contain entries that were served before
            SELECT true AS is_there FROM fairpost.node_state c
            WHERE c.parent = root.id AND c.busy > 0 AND c.held_until IS NULL AND c.vtime >= now_at.v ORDER BY c.vtime LIMIT 1) first ON true
        WHERE root.parent = 0 GROUP BY 1
    ), known AS (
        SELECT route FROM noted UNION SELECT route FROM tree
    ), seen AS (
        SELECT k.route, coalesce(tree.busy, false) AS busy, least(noted.at, asleep.at, freed.at) AS at
        FROM known k LEFT JOIN noted USING (route) LEFT JOIN tree USING (route)
        LEFT JOIN LATERAL (   -- only read if nothing can be sent now; starts slightly before the time up to which all nodes were woken, in case a node was missed
            SELECT c.wake_at AS at FROM fairpost.routes_now(ARRAY[k.route]) o, fairpost.node_state c
            WHERE c.route = k.route AND c.wake_at >= o.woken_until - interval '5 minutes' AND tree.busy IS NOT TRUE ORDER BY c.wake_at LIMIT 1) asleep ON true
        LEFT JOIN LATERAL (SELECT c.held_until AS at FROM fairpost.node_state c
                           WHERE c.route = k.route AND c.held_until < 'infinity' AND c.busy > 0 ORDER BY c.held_until LIMIT 1) freed ON true
    )
    SELECT s.route, s.busy OR coalesce(s.at <= t, false), CASE WHEN s.at > t THEN s.at END FROM seen s WHERE (s.busy OR s.at IS NOT NULL)
        AND NOT EXISTS (SELECT FROM fairpost.pauses p WHERE p.everything AND p.until > t);
END $$;

-- Returns the newest version of each given account's lease or, if null is given, of every lease; see migration 0027.
CREATE OR REPLACE FUNCTION fairpost.leases_now(p_accounts bigint[] DEFAULT NULL) RETURNS SETOF fairpost.leases
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF p_accounts IS NULL THEN
        p_accounts := ARRAY(SELECT a.id FROM fairpost.accounts a);
    END IF;
    RETURN QUERY
    SELECT l.* FROM unnest(p_accounts) a(id)
    CROSS JOIN LATERAL (SELECT * FROM fairpost.leases l WHERE l.account_id = a.id ORDER BY l.step DESC LIMIT 1) l;
END $$;

DROP FUNCTION IF EXISTS fairpost.suspend_account(bigint, bigint, text, timestamptz);
