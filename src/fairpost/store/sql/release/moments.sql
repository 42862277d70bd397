-- Returns the time at which the next e-mail below these routes becomes due or the next hold ends, whichever is earlier.
CREATE OR REPLACE FUNCTION fairpost.next_moment(routes text[]) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT min(least(
        (SELECT c.wake_at FROM fairpost.node_state c WHERE c.route = o.route AND c.wake_at >= o.woken_until ORDER BY c.wake_at LIMIT 1),
        (SELECT nullif(c.held_until, 'infinity') FROM fairpost.node_state c WHERE c.route = o.route AND c.held_until IS NOT NULL ORDER BY c.held_until LIMIT 1)))
    FROM fairpost.routes_now(routes) o
$$;

-- Returns the time at which the next urgent e-mail below this account's inactive nodes becomes due, if this is before the given moment.
CREATE OR REPLACE FUNCTION fairpost.next_urgent(p_account bigint, p_before timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT min(c.wake_at) FROM fairpost.accounts a
    CROSS JOIN LATERAL fairpost.routes_now(ARRAY[a.pool, '@' || a.name]) o
    CROSS JOIN LATERAL (SELECT c.id, c.wake_at FROM fairpost.node_state c WHERE c.route = o.route AND c.wake_at >= o.woken_until AND c.wake_at < p_before OFFSET 0) c
    CROSS JOIN LATERAL (SELECT n.class, n.workspace FROM fairpost.nodes n WHERE n.id = c.id OFFSET 0) n
    WHERE a.id = p_account AND n.class = 'urgent'
    AND NOT EXISTS (SELECT FROM fairpost.blocks b WHERE b.account_id = a.id AND b.workspace = n.workspace AND b.until > c.wake_at)
$$;

-- Waits until the first workspace on the account's routes is unlocked, without keeping a lock on it.
CREATE OR REPLACE FUNCTION fairpost.await_turn(p_account bigint) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET lock_timeout = '1s' SET enable_bitmapscan = off AS $$
BEGIN
    PERFORM c.id FROM fairpost.node_state c WHERE c.id = (
        SELECT c.id FROM fairpost.accounts a
        CROSS JOIN LATERAL (SELECT n.id FROM fairpost.nodes n WHERE n.parent = 0 AND n.route IN (a.pool, '@' || a.name) OFFSET 0) n
        CROSS JOIN LATERAL (SELECT c.v FROM fairpost.node_state c WHERE c.id = n.id AND c.parent = 0 ORDER BY c.v DESC LIMIT 1) root
        CROSS JOIN LATERAL (SELECT c.id FROM fairpost.node_state c WHERE c.parent = n.id AND c.busy > 0 AND c.held_until IS NULL AND c.vtime >= root.v
                            AND c.key <> ALL (fairpost.blocked_on(p_account, clock_timestamp())) ORDER BY c.vtime LIMIT 1) c
        WHERE a.id = p_account LIMIT 1) ORDER BY c.turn DESC LIMIT 1 FOR UPDATE;
EXCEPTION WHEN lock_not_available THEN
    NULL;
END $$;
