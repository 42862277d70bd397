-- The fair claim: start-time fair queueing, level by level, in O(batch). Lock first, look after, each in a statement
-- of its own: under READ COMMITTED only a new statement sees what the last holder of a lock committed.

-- How a quota is shared among the children of each branch. Each child stands at the virtual time it has reached; one
-- e-mail more puts it 1/weight further; the quota goes to the earliest places. Children of one name below two routes
-- (a pool and an account's own) count as one. With `mine`, only these children take part; with `edge`, none
-- of them goes further than that, lest somebody runs ahead because all the others happen to be locked.
CREATE OR REPLACE FUNCTION fairpost.share_out(parents fairpost.branch[], depth integer, mine tid[], edge double precision) RETURNS fairpost.branch[]
LANGUAGE plpgsql AS $$
DECLARE
    shared fairpost.branch[];
BEGIN
    WITH child AS MATERIALIZED (
        SELECT p.grp AS above, p.quota, p.pinned, p.path, p.spots, p.groups, p.starts, c.*, c.vtime - p.v AS lag,
               min(c.vtime) OVER (PARTITION BY p.node) AS first
        FROM unnest(parents) p CROSS JOIN LATERAL (
            SELECT x.id, x.ctid AS spot, x.key, x.flow, x.head_due, x.head_id, x.weight, x.vtime, x.v, x.waiting
            FROM fairpost.clocks x
            WHERE x.parent = p.node AND x.busy > 0 AND x.held_until IS NULL AND x.vtime >= p.v
            ORDER BY x.vtime LIMIT p.quota) c
        WHERE mine IS NULL
        UNION ALL
        SELECT p.grp, p.quota, p.pinned, p.path, p.spots, p.groups, p.starts, x.id, x.ctid, x.key, x.flow, x.head_due, x.head_id,
               x.weight, x.vtime, x.v, x.waiting, x.vtime - p.v, x.vtime
        FROM unnest(mine) m(spot) CROSS JOIN LATERAL (SELECT x.ctid, x.* FROM fairpost.clocks x WHERE x.ctid = m.spot OFFSET 0) x
        JOIN unnest(parents) p ON p.node = x.parent
        WHERE x.busy > 0 AND x.held_until IS NULL
    ), named AS MATERIALIZED (
        SELECT above, key, quota, max(lag) AS lag, max(weight) AS weight, least(quota, greatest(sum(waiting), 1)) AS most,
               row_number() OVER (ORDER BY above, key) AS nth
        FROM child GROUP BY above, key, quota
    ), bound AS (
        -- No child is served past this place: at it, the quota is used up even if all are equally far.
        SELECT *, max(lag) OVER w + quota / sum(weight) OVER w AS reach FROM named WINDOW w AS (PARTITION BY above)
    ), place AS (
        SELECT b.nth, b.above, b.quota, row_number() OVER (PARTITION BY b.above ORDER BY b.lag + k / b.weight, k, b.nth) AS turn
        FROM bound b CROSS JOIN LATERAL generate_series(0, least(b.most, ceil((b.reach - b.lag) * b.weight) + 1)::integer - 1) k
        WHERE edge IS NULL OR b.lag + k / b.weight <= edge
    ), won AS (
        SELECT nth, count(*)::integer AS quota FROM place WHERE turn <= quota GROUP BY nth
    )
    SELECT array_agg(ROW(c.id, c.v, c.flow, c.head_due, c.head_id, c.pinned, depth * 100000 + n.nth, won.quota,
                         c.path || c.id, c.spots || c.spot, c.groups || (depth * 100000 + n.nth)::integer, c.starts || c.first)::fairpost.branch)
    INTO shared
    FROM won JOIN named n USING (nth) JOIN child c ON c.above = n.above AND c.key = n.key;
    RETURN shared;
END $$;

-- Who is next in the order of time, whoever they are: the leaves with the oldest e-mails, and how many of each. Of the
-- workspaces that somebody else holds, nothing; `skipped` says so. Nor of the `blocked` ones.
DROP FUNCTION IF EXISTS fairpost.in_order(fairpost.branch[], integer, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.in_order(
    roots fairpost.branch[], p_limit integer, p_now timestamptz, blocked text[], OUT branches fairpost.branch[], OUT skipped boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    heads bigint[];
    workspaces bigint[];
    ours bigint[];
BEGIN
    SELECT array_agg(h.id), array_agg(DISTINCT h.workspace) INTO heads, workspaces
    FROM (SELECT c.id, n.path[1] AS workspace, c.head_due, c.head_id
          FROM unnest(roots) r CROSS JOIN LATERAL (
              SELECT c.id, c.head_due, c.head_id FROM fairpost.clocks c CROSS JOIN LATERAL (SELECT * FROM fairpost.nodes n WHERE n.id = c.id OFFSET 0) n
              WHERE c.fifo_root = r.node AND c.busy > 0 AND n.workspace <> ALL (blocked)
              AND NOT EXISTS (SELECT FROM unnest(n.path) w(id) CROSS JOIN LATERAL (SELECT h.held_until FROM fairpost.clocks h WHERE h.id = w.id OFFSET 0) h WHERE h.held_until IS NOT NULL)
              ORDER BY c.head_due, c.head_id LIMIT p_limit) c
          CROSS JOIN LATERAL (SELECT * FROM fairpost.nodes n WHERE n.id = c.id OFFSET 0) n ORDER BY c.head_due, c.head_id LIMIT p_limit) h;
    ours := ARRAY(SELECT c.id FROM fairpost.clocks c WHERE c.id = ANY (workspaces) FOR UPDATE SKIP LOCKED);
    skipped := NOT coalesce(workspaces <@ ours, true);
    WITH leaf AS MATERIALIZED (   -- looked at again, under the lock
        SELECT c.id, c.v, c.flow, c.head_due, c.head_id, n.path, n.route, c.spot
        FROM fairpost.nodes n   -- OFFSET 0: what is asked outside may not choose the index of all that is busy in this lane
        CROSS JOIN LATERAL (SELECT c.*, c.ctid AS spot FROM fairpost.clocks c WHERE c.id = n.id OFFSET 0) c
        WHERE n.id = ANY (heads) AND n.path[1] = ANY (ours) AND c.busy > 0 AND c.fifo_root IS NOT NULL
        AND NOT EXISTS (SELECT FROM unnest(n.path) w(id) CROSS JOIN LATERAL (SELECT h.held_until FROM fairpost.clocks h WHERE h.id = w.id OFFSET 0) h WHERE h.held_until IS NOT NULL)
    ), won AS (
        SELECT q.leaf, greatest(1, count(*) FILTER (WHERE q.turn <= p_limit AND q.due_at <= p_now))::integer AS quota
        FROM (SELECT l.id AS leaf, q.due_at, row_number() OVER (ORDER BY q.due_at, q.id) AS turn
              FROM leaf l LEFT JOIN LATERAL (
                  SELECT q.id, q.due_at FROM fairpost.queue q
                  WHERE q.flow = l.flow AND q.waiting AND (q.due_at, q.id) >= (l.head_due, l.head_id)
                  ORDER BY q.due_at, q.id LIMIT p_limit) q ON true) q
        GROUP BY q.leaf
        -- one with nothing due takes part as well, and is put to sleep
        HAVING bool_or(q.turn <= p_limit AND q.due_at <= p_now) OR NOT coalesce(bool_or(q.due_at <= p_now), false)
    )
    SELECT array_agg(ROW(l.id, l.v, l.flow, l.head_due, l.head_id, left(l.route, 1) = '@', 400000 + dense, w.quota, l.path, spots, groups, '{}')::fairpost.branch)
    INTO branches
    FROM won w JOIN leaf l ON l.id = w.leaf
    CROSS JOIN LATERAL (
        SELECT array_agg(c.spot ORDER BY p.depth) AS spots FROM unnest(l.path) WITH ORDINALITY p(id, depth)
        CROSS JOIN LATERAL (SELECT c.ctid AS spot FROM fairpost.clocks c WHERE c.id = p.id OFFSET 0) c) s
    JOIN (SELECT x.id, x.dense, ARRAY[x.w, 100000 + x.d, 200000 + x.u, 400000 + x.dense]::integer[] AS groups
          FROM (SELECT l.id, dense_rank() OVER (ORDER BY l.id)::integer AS dense, dense_rank() OVER (ORDER BY l.path[1]) AS w,
                       dense_rank() OVER (ORDER BY l.path[2]) AS d, dense_rank() OVER (ORDER BY l.path[3]) AS u FROM leaf l) x) g ON g.id = l.id;
END $$;

-- Those who are blocked on an account come along with the first who is not, an e-mail behind at the most. Else the virtual time would stand still where
-- no other account serves them, and newcomers, who begin there, go before everybody else for a long time. They lose nothing by it: they are still the first
-- in line for an account that may serve them.
CREATE OR REPLACE FUNCTION fairpost.take_along(roots fairpost.branch[], blocked text[]) RETURNS void
LANGUAGE sql AS $$
    UPDATE fairpost.clocks c SET vtime = behind.first
    FROM (SELECT c.spot, first.vtime AS first
          FROM unnest(roots) r CROSS JOIN LATERAL (
              SELECT c.vtime FROM fairpost.clocks c
              WHERE c.parent = r.node AND c.busy > 0 AND c.held_until IS NULL AND c.vtime >= r.v AND c.key <> ALL (blocked) ORDER BY c.vtime LIMIT 1) first
          CROSS JOIN LATERAL (
              SELECT c.ctid AS spot FROM fairpost.clocks c
              WHERE c.parent = r.node AND c.busy > 0 AND c.held_until IS NULL AND c.vtime >= r.v AND c.vtime < first.vtime - 1 AND c.key = ANY (blocked)
              FOR UPDATE SKIP LOCKED) c) behind
    WHERE c.ctid = behind.spot
$$;

-- Up to `p_limit` e-mails below these roots, marked as claimed; `skipped` when somebody else held what had more.
-- What may never be sent (suppressed, expired) is settled on the way. Fairly, or in the order of time: then nobody is
-- charged for it, so that nobody pays for it when the order is fair again. Those who are blocked on this account are stepped over.
DROP FUNCTION IF EXISTS fairpost.pick(fairpost.branch[], bigint, bigint, integer, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.pick(
    roots fairpost.branch[], p_account bigint, p_epoch bigint, p_limit integer, p_now timestamptz, p_fifo boolean, OUT ids bigint[], OUT skipped boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    rounds_max CONSTANT integer := 20;
    blocked CONSTANT text[] := fairpost.blocked_on(p_account, p_now);
    branches fairpost.branch[];
    first_ids bigint[];
    our_ids bigint[];
    workspaces tid[];
    edge double precision;
    near_leaf bigint[]; near_id bigint[]; near_due timestamptz[]; near_nth bigint[];   -- one more than the quota from each leaf
    locked bigint[];
    barred bigint[];
    taken bigint[];
    idle bigint[];
BEGIN
    ids := '{}';
    skipped := false;
    IF blocked <> '{}' AND NOT p_fifo THEN
        PERFORM fairpost.take_along(roots, blocked);
    END IF;
    FOR round IN 1..rounds_max LOOP
        EXIT WHEN cardinality(ids) >= p_limit;
        IF p_fifo THEN
            SELECT o.branches, o.skipped INTO branches, skipped FROM fairpost.in_order(roots, p_limit - cardinality(ids), p_now, blocked) o;
        ELSE
            branches := ARRAY(SELECT ROW(r.node, r.v, NULL, NULL, NULL, r.pinned, 0, p_limit - cardinality(ids), '{}', '{}', '{}', '{}')::fairpost.branch
                              FROM unnest(roots) r);
            -- Who is next in turn, whoever holds them; and how far this batch would take them: a round, or more if they are few.
            SELECT array_agg(n.id), n.edge INTO first_ids, edge
            FROM (SELECT w.id, w.lag, min(w.lag) OVER () + greatest(1, max(w.quota) OVER () / sum(w.weight) OVER ()) + 1e-6 AS edge
                  FROM unnest(branches) r CROSS JOIN LATERAL (
                      SELECT c.id, c.vtime - r.v AS lag, c.weight, r.quota FROM fairpost.clocks c
                      WHERE c.parent = r.node AND c.busy > 0 AND c.held_until IS NULL AND c.vtime >= r.v AND c.key <> ALL (blocked)
                      ORDER BY c.vtime LIMIT r.quota) w) n
            WHERE n.lag < n.edge - 1e-9 GROUP BY n.edge;
            EXIT WHEN first_ids IS NULL;
            SELECT array_agg(w.spot), array_agg(w.id) INTO workspaces, our_ids FROM unnest(branches) r CROSS JOIN LATERAL (
                SELECT c.ctid AS spot, c.id FROM fairpost.clocks c
                WHERE c.parent = r.node AND c.busy > 0 AND c.held_until IS NULL AND c.vtime >= r.v AND c.vtime <= r.v + edge AND c.key <> ALL (blocked)
                ORDER BY c.vtime LIMIT r.quota FOR UPDATE SKIP LOCKED) w;
            skipped := NOT coalesce(first_ids <@ our_ids, false);
            branches := fairpost.share_out(branches, 1, coalesce(workspaces, '{}'), CASE WHEN skipped THEN edge END);
            EXIT WHEN branches IS NULL;
            FOR depth IN 2..4 LOOP
                branches := fairpost.share_out(branches, depth, NULL, NULL);
            END LOOP;
        END IF;
        EXIT WHEN branches IS NULL;

        SELECT array_agg(q.leaf), array_agg(q.id), array_agg(q.due_at), array_agg(q.nth) INTO near_leaf, near_id, near_due, near_nth
        FROM (SELECT b.node AS leaf, q.id, q.due_at, row_number() OVER (PARTITION BY b.node ORDER BY q.due_at, q.id) AS nth
              FROM unnest(branches) b CROSS JOIN LATERAL (
                  SELECT q.id, q.due_at FROM fairpost.queue q
                  WHERE q.flow = b.flow AND q.waiting AND (q.due_at, q.id) >= (b.head_due, b.head_id)
                  ORDER BY q.due_at, q.id LIMIT b.quota + 1) q) q;
        locked := ARRAY(
            SELECT q.id FROM unnest(near_leaf, near_id, near_due, near_nth) c(leaf, id, due, nth) JOIN unnest(branches) b ON b.node = c.leaf
            CROSS JOIN LATERAL (SELECT q.id, q.waiting, q.due_at FROM fairpost.queue q WHERE q.id = c.id FOR UPDATE SKIP LOCKED) q
            WHERE c.due <= p_now AND c.nth <= b.quota AND q.waiting AND q.due_at <= p_now);   -- its prospect may have been paused since
        barred := ARRAY(
            SELECT q.id FROM fairpost.queue q WHERE q.id = ANY (locked) AND (q.expires_at <= p_now OR NOT EXISTS (
                SELECT FROM unnest(q.addresses) a WHERE (
                    SELECT true FROM fairpost.suppressions s WHERE s.address = fairpost.fold(a) AND s.workspace IN (q.workspace, '*')
                    AND fairpost.stops_mail(s.kind, s.also_urgent, q.class) LIMIT 1) IS NULL
                AND (
                    SELECT true FROM fairpost.suppression_hashes h
                    WHERE h.address_hash = (SELECT sha256(s.salt || convert_to(fairpost.fold(a), 'UTF8')) FROM fairpost.salts s WHERE s.single) AND h.workspace IN (q.workspace, '*')
                    AND fairpost.stops_mail(h.kind, h.also_urgent, q.class) LIMIT 1) IS NULL)));

        WITH candidate AS (
            SELECT c.*, b.grp, b.quota, b.pinned, c.id = ANY (locked) AS mine, c.id = ANY (barred) AS never
            FROM unnest(near_leaf, near_id, near_due, near_nth) c(leaf, id, due, nth) JOIN unnest(branches) b ON b.node = c.leaf
        ), judged AS (
            -- Pinned mail goes first; together the leaves of one name take no more than the name may.
            SELECT c.*, c.mine AND (c.never OR sum((c.mine AND NOT c.never)::integer)
                OVER (PARTITION BY c.grp ORDER BY c.pinned DESC, c.leaf, c.nth) <= c.quota) AS taken
            FROM candidate c
        ), stock AS (
            SELECT b.node, b.path, b.spots, b.groups, b.starts, count(j.id) FILTER (WHERE j.taken) AS n, count(j.id) FILTER (WHERE j.taken AND NOT j.never) AS live,
                   (array_agg(j.due ORDER BY j.nth) FILTER (WHERE NOT j.taken))[1] AS next_due,
                   (array_agg(j.id ORDER BY j.nth) FILTER (WHERE NOT j.taken))[1] AS next_id,
                   max(j.due) AS last_due, (array_agg(j.id ORDER BY j.nth DESC))[1] AS last_id
            FROM unnest(branches) b LEFT JOIN judged j ON j.leaf = b.node
            GROUP BY b.node, b.path, b.spots, b.groups, b.starts
        ), charge AS (
            SELECT g.grp, sum(s.live) AS live FROM stock s, unnest(s.groups) AS g(grp) GROUP BY g.grp
        ), step AS (
            SELECT w.node, w.spot, max(g.live) AS live, sum(s.n) AS n, min(w.next_start) AS v
            FROM stock s, unnest(s.path, s.spots, s.groups, s.starts[2:4]) AS w(node, spot, grp, next_start), charge g
            WHERE g.grp = w.grp GROUP BY w.node, w.spot
        ), moved AS (
            UPDATE fairpost.clocks c SET
                vtime = c.vtime + CASE WHEN p_fifo THEN 0 ELSE t.live / c.weight END,
                waiting = c.waiting - t.n,
                v = greatest(c.v, t.v),
                head_due = CASE WHEN s.node IS NULL OR s.last_id IS NULL THEN c.head_due ELSE coalesce(s.next_due, s.last_due) END,
                head_id = CASE WHEN s.node IS NULL OR s.last_id IS NULL THEN c.head_id ELSE coalesce(s.next_id, s.last_id + 1) END,
                busy = CASE WHEN s.node IS NOT NULL AND coalesce(s.next_due > p_now, true) THEN 0 ELSE c.busy END,
                wake_at = CASE WHEN s.next_due > p_now AND s.next_due < 'infinity' THEN s.next_due END
            FROM step t LEFT JOIN stock s ON s.node = t.node
            WHERE c.ctid = t.spot   -- where it was read: by its id, every version that vacuum could not remove would be walked
        )
        SELECT ARRAY(SELECT j.id FROM judged j WHERE j.taken ORDER BY CASE WHEN p_fifo THEN j.due END, CASE WHEN p_fifo THEN j.id END),
               ARRAY(SELECT s.node FROM stock s WHERE coalesce(s.next_due > p_now, true))
        INTO taken, idle;

        PERFORM fairpost.deactivate(idle);
        PERFORM fairpost.finish_unsendable(q.id, p_now) FROM unnest(barred) q(id) WHERE q.id = ANY (taken);
        UPDATE fairpost.queue q SET state = 'claimed', waiting = false, account_id = p_account, epoch = p_epoch, claimed_at = p_now, begun_at = NULL
        WHERE q.id = ANY (taken) AND q.id <> ALL (barred) AND q.state = 'waiting';
        ids := ids || ARRAY(SELECT t.id FROM unnest(taken) WITH ORDINALITY t(id, place) WHERE t.id <> ALL (barred) ORDER BY t.place);

        IF cardinality(taken) = 0 AND cardinality(idle) = 0 THEN
            skipped := true;   -- everything in reach is locked, by a cancellation that has not committed
            EXIT;
        END IF;
    END LOOP;
END $$;

-- Stage and claim in one round trip. `verdict`: ok, stale (the lease is gone: stop at once), inactive (the account may
-- not send now), changed (it has other settings by now: begin anew) or paused (nobody may; `next_at` is when that ends, null: when somebody resumes). When nothing came, `again` says that others held what there is: look again before sleeping; else
-- `next_at` is the next moment something becomes due.
CREATE OR REPLACE FUNCTION fairpost.claim(
    p_account bigint, p_epoch bigint, p_limit integer, p_now timestamptz DEFAULT NULL,
    OUT verdict text, OUT ids bigint[], OUT again boolean, OUT next_at timestamptz
)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan SET enable_bitmapscan = off AS $$
DECLARE
    t timestamptz;
    lease fairpost.leases;
    account fairpost.accounts;
    routes text[];
    f fairpost.fairness;
    served double precision[];
    open boolean[] := '{f,f,f,f,f}';
    for_bulk integer;
    got record;
    urgent_ids bigint[];
    bulk_ids bigint[];
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'claim: needs the isolation level read committed, got %', current_setting('transaction_isolation')
            USING ERRCODE = 'FP002', HINT = 'Unset default_transaction_isolation for the role that Fairpost uses.';
    END IF;
    ids := '{}';
    again := false;
    SELECT * INTO lease FROM fairpost.leases l WHERE l.account_id = p_account ORDER BY l.step DESC LIMIT 1 FOR NO KEY UPDATE;
    t := coalesce(p_now, clock_timestamp());
    IF lease.epoch IS DISTINCT FROM p_epoch OR lease.until <= t THEN
        verdict := 'stale';
        RETURN;
    ELSIF lease.server IS DISTINCT FROM pg_postmaster_start_time() THEN
        verdict := 'unconfirmed';
        RETURN;
    END IF;
    SELECT * INTO account FROM fairpost.accounts a WHERE a.id = p_account;
    IF account.status <> 'active' OR account.revision <> lease.revision THEN
        verdict := CASE WHEN account.status <> 'active' THEN 'inactive' ELSE 'changed' END;
        RETURN;
    END IF;
    routes := ARRAY[account.pool, '@' || account.name];
    SELECT nullif(p.until, 'infinity') INTO next_at FROM fairpost.pauses p WHERE p.everything AND p.until > t;
    IF FOUND THEN
        verdict := 'paused';
        RETURN;
    END IF;
    verdict := 'ok';
    -- A claim that a crash of the server forgets does no harm: the e-mails just wait again, for begin is durable and
    -- comes after. So nobody has to wait for the disk while a workspace is locked.
    PERFORM set_config('synchronous_commit', 'off', true);

    again := fairpost.stage(routes, t);
    SELECT * INTO f FROM fairpost.fairness;
    served := lease.lanes_served;

    -- Urgent goes first, and bulk keeps a tenth; the account remembers what it owes it.
    for_bulk := least(p_limit, (lease.urgent_run + p_limit) / 10);
    got := fairpost.pick_by_lanes(routes, 'urgent', f, p_account, p_epoch, p_limit - for_bulk, t, served, open);
    again := again OR got.skipped;
    urgent_ids := got.ids;
    got := fairpost.pick_by_lanes(routes, 'bulk', f, p_account, p_epoch, p_limit - cardinality(urgent_ids), t, got.served, got.open);
    again := again OR got.skipped;
    bulk_ids := got.ids;
    IF cardinality(urgent_ids) = p_limit - for_bulk AND cardinality(bulk_ids) < for_bulk THEN
        got := fairpost.pick_by_lanes(routes, 'urgent', f, p_account, p_epoch, for_bulk - cardinality(bulk_ids), t, got.served, got.open);
        urgent_ids := urgent_ids || got.ids;
    END IF;
    ids := urgent_ids || bulk_ids;
    served := fairpost.carry_over(got.served, got.open);
    IF urgent_ids <> '{}' OR lease.urgent_run > 0 OR served <> lease.lanes_served THEN
        UPDATE fairpost.leases l SET
            urgent_run = least(9, greatest(0, l.urgent_run + cardinality(urgent_ids) - 9 * cardinality(bulk_ids))), lanes_served = served
        WHERE l.account_id = p_account AND l.step = lease.step;
    END IF;
    IF cardinality(ids) = 0 AND NOT again THEN
        next_at := least(fairpost.next_moment(routes), (SELECT nullif(min(b.until), 'infinity') FROM fairpost.blocks b WHERE b.account_id = p_account AND b.until > t));
    END IF;
END $$;

DROP FUNCTION IF EXISTS fairpost.roots_of(text[], fairpost.email_class);
CREATE OR REPLACE FUNCTION fairpost.roots_of(routes text[], p_class fairpost.email_class, lane text) RETURNS fairpost.branch[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT array_agg(ROW(n.id, c.v, NULL, NULL, NULL, left(n.route, 1) = '@', 0, 0, '{}', '{}', '{}', '{}')::fairpost.branch)
            FROM (SELECT fairpost.root_key(r, p_class, lane) AS key FROM unnest(routes) r) r
            -- the key as one row: the index by name, which knows keys as well, cannot serve that
            CROSS JOIN LATERAL (SELECT n.id, n.route FROM fairpost.nodes n WHERE (n.parent, n.key) BETWEEN (0, r.key) AND (0, r.key) LIMIT 1) n
            -- v only grows: the newest version of the row comes first, and nobody walks the old ones
            CROSS JOIN LATERAL (SELECT c.v FROM fairpost.clocks c WHERE c.id = n.id AND c.parent = 0 ORDER BY c.v DESC LIMIT 1) c);
END $$;

-- What a lease holds untouched: after a claim whose answer was lost, or an e-mail found locked by somebody who was cancelling
-- it. What an earlier lease of the account left so is adopted. Null: the lease is gone.
CREATE OR REPLACE FUNCTION fairpost.held(p_account bigint, p_epoch bigint, p_now timestamptz DEFAULT NULL) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    lease fairpost.leases;
    ids bigint[];
BEGIN
    SELECT * INTO lease FROM fairpost.leases l WHERE l.account_id = p_account ORDER BY l.step DESC LIMIT 1 FOR NO KEY UPDATE;
    IF lease.epoch IS DISTINCT FROM p_epoch OR lease.until <= coalesce(p_now, clock_timestamp()) THEN
        RETURN NULL;
    END IF;
    ids := ARRAY(SELECT q.id FROM fairpost.queue q   -- as in recover.sql
                 WHERE q.account_id BETWEEN p_account AND p_account AND NOT q.waiting AND q.state = 'claimed' ORDER BY q.account_id, q.id FOR UPDATE SKIP LOCKED);
    UPDATE fairpost.queue q SET epoch = p_epoch WHERE q.id = ANY (ids) AND q.epoch <> p_epoch;
    RETURN ids;
END $$;

-- When something below these routes becomes due or is set free.
CREATE OR REPLACE FUNCTION fairpost.next_moment(routes text[]) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT min(least(
        (SELECT c.wake_at FROM fairpost.clocks c WHERE c.route = o.route AND c.wake_at >= o.woken_until ORDER BY c.wake_at LIMIT 1),
        (SELECT nullif(c.held_until, 'infinity') FROM fairpost.clocks c WHERE c.route = o.route AND c.held_until IS NOT NULL ORDER BY c.held_until LIMIT 1)))
    FROM fairpost.routes o WHERE o.route = ANY (routes)
$$;

-- When the next urgent e-mail that sleeps below this account's routes becomes due, if that is before the moment given.
CREATE OR REPLACE FUNCTION fairpost.next_urgent(p_account bigint, p_before timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT min(c.wake_at) FROM fairpost.accounts a
    CROSS JOIN LATERAL (SELECT c.id, c.wake_at FROM fairpost.clocks c WHERE c.route IN (a.pool, '@' || a.name) AND c.wake_at < p_before OFFSET 0) c
    CROSS JOIN LATERAL (SELECT n.class, n.workspace FROM fairpost.nodes n WHERE n.id = c.id OFFSET 0) n
    WHERE a.id = p_account AND n.class = 'urgent'
    AND NOT EXISTS (SELECT FROM fairpost.blocks b WHERE b.account_id = a.id AND b.workspace = n.workspace AND b.until > c.wake_at)
$$;

-- Waits until whoever holds the first workspace of these routes is done with it, holding nothing oneself.
CREATE OR REPLACE FUNCTION fairpost.await_turn(p_account bigint) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET lock_timeout = '1s' SET enable_bitmapscan = off AS $$
BEGIN
    PERFORM c.id FROM fairpost.clocks c WHERE c.id = (
        SELECT c.id FROM fairpost.accounts a
        CROSS JOIN LATERAL (SELECT n.id FROM fairpost.nodes n WHERE n.parent = 0 AND n.route IN (a.pool, '@' || a.name) OFFSET 0) n
        CROSS JOIN LATERAL (SELECT c.v FROM fairpost.clocks c WHERE c.id = n.id AND c.parent = 0 ORDER BY c.v DESC LIMIT 1) root
        CROSS JOIN LATERAL (SELECT c.id FROM fairpost.clocks c WHERE c.parent = n.id AND c.busy > 0 AND c.held_until IS NULL AND c.vtime >= root.v
                            AND c.key <> ALL (fairpost.blocked_on(p_account, clock_timestamp())) ORDER BY c.vtime LIMIT 1) c
        WHERE a.id = p_account LIMIT 1) FOR UPDATE;
EXCEPTION WHEN lock_not_available THEN
    NULL;
END $$;
