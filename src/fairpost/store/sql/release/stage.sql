-- Updates the tree with new arrivals, e-mails that have become due, and holds that have ended. Whichever claim comes first does this. The lock is the
-- route's row, and no transaction waits for it. The cost depends on the number of changes, never on the number of waiting e-mails. For example, a
-- batch of ten thousand e-mails from one sender is one arrival.

-- Returns the newest row version for each of these routes (see migration 0033).
CREATE OR REPLACE FUNCTION fairpost.routes_now(names text[]) RETURNS SETOF fairpost.routes
LANGUAGE sql STABLE AS $$
    SELECT o.* FROM unnest(names) n(route) CROSS JOIN LATERAL (SELECT * FROM fairpost.routes o WHERE o.route = n.route ORDER BY o.turn DESC LIMIT 1) o
$$;

-- Adds a row for the route unless it has one. Waits only if another transaction is adding the first account for the same route.
CREATE OR REPLACE FUNCTION fairpost.add_route(p_route text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM fairpost.routes_now(ARRAY[p_route])) THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('fairpost route ' || p_route, 0));
        INSERT INTO fairpost.routes (route) SELECT p_route WHERE NOT EXISTS (SELECT FROM fairpost.routes_now(ARRAY[p_route]));
    END IF;
END $$;

-- Returns all arrivals that the tree has not absorbed. Arrivals that the tree has absorbed are not read again, even if vacuum cannot remove them for
-- a long time. On a route that has a tree, arrivals are therefore read by transaction, as in staging. On other routes, all arrivals are unread. In a
-- restored database, transaction ids start over.
CREATE OR REPLACE FUNCTION fairpost.unread() RETURNS SETOF fairpost.arrivals
LANGUAGE sql STABLE AS $$
    WITH staged AS MATERIALIZED (
        SELECT n.route, lead(n.route) OVER (ORDER BY n.route) AS next, x.seen, pg_snapshot_xmax(x.seen) AS seen_until, o.seen_by
        FROM (SELECT DISTINCT n.route FROM fairpost.nodes n WHERE n.parent = 0) n
        LEFT JOIN LATERAL (SELECT * FROM fairpost.routes o WHERE o.route = n.route ORDER BY o.turn DESC LIMIT 1) o ON true
        CROSS JOIN LATERAL (SELECT CASE WHEN pg_snapshot_xmax(o.seen) <= pg_snapshot_xmax(pg_current_snapshot()) THEN o.seen ELSE '1:1:' END AS seen OFFSET 0) x
    )
    SELECT a.* FROM staged s CROSS JOIN LATERAL (SELECT * FROM fairpost.arrivals a WHERE a.route = s.route AND a.xid >= s.seen_until OFFSET 0) a
    UNION ALL
    SELECT a.* FROM staged s CROSS JOIN LATERAL (SELECT pg_snapshot_xip(s.seen) AS xid UNION SELECT s.seen_by) t
    CROSS JOIN LATERAL (SELECT * FROM fairpost.arrivals a WHERE a.route = s.route AND a.xid = t.xid OFFSET 0) a WHERE t.xid < s.seen_until
    UNION ALL
    SELECT a.* FROM staged s CROSS JOIN LATERAL (SELECT * FROM fairpost.arrivals a WHERE a.route > s.route AND a.route < s.next OFFSET 0) a
    UNION ALL
    SELECT a.* FROM fairpost.arrivals a WHERE a.route < (SELECT min(s.route) FROM staged s)
    UNION ALL
    SELECT a.* FROM fairpost.arrivals a WHERE a.route > coalesce((SELECT max(s.route) FROM staged s), '')
$$;

-- Functions that run only for new names plan their statements each time, because a plan made while the tree was tiny would read the whole tree.

-- Creates the missing nodes for arrivals, level by level, with the rules that apply to them. Each user is attached below the home given with the arrival.
-- The leaves are always missing, because the key of a leaf is its flow.
DROP FUNCTION IF EXISTS fairpost.ensure_nodes(fairpost.arrivals[], timestamptz);
CREATE OR REPLACE FUNCTION fairpost.ensure_nodes(arrived fairpost.arrivals[], homes text[], p_now timestamptz) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    levels CONSTANT fairpost.node_level[] := '{route,workspace,domain,user,stream}';
    parents bigint[] := array_fill(0::bigint, ARRAY[cardinality(arrived)]);
    depth integer;
    f fairpost.fairness;
    lanes text[];
    users bigint[];   -- the new nodes of users
BEGIN
    SELECT * INTO f FROM fairpost.fairness;   -- read under the locks, because a change to the settings moves all senders
    lanes := ARRAY(SELECT fairpost.lane_of(a.workspace, a.user_name, f) FROM unnest(arrived) a);
    FOR depth IN 0..3 LOOP
        WITH wanted AS (
            SELECT nextval('fairpost.node_serial') AS id, w.*, coalesce(p.path, '{}') AS above
            FROM (
                SELECT DISTINCT a.route, a.class, parents[a.ord] AS parent,
                    CASE WHEN depth = 0 THEN '' ELSE a.workspace END AS workspace,
                    CASE depth WHEN 0 THEN fairpost.root_key(a.route, a.class, lanes[a.ord]) WHEN 1 THEN a.workspace WHEN 2 THEN homes[a.ord] ELSE a.user_name END AS key
                FROM unnest(arrived) WITH ORDINALITY AS a(route, xid, class, workspace, domain, user_name, stream, flow, n, due_at, id, fresh, ord)
            ) w
            LEFT JOIN LATERAL (SELECT p.path FROM fairpost.nodes p WHERE p.id = w.parent OFFSET 0) p ON true
            -- here and below, the key is compared as one row, to keep the planner from using the index on name, which also contains keys
            WHERE (SELECT true FROM fairpost.nodes o WHERE (o.parent, o.key) BETWEEN (w.parent, w.key) AND (w.parent, w.key) LIMIT 1) IS NULL
        ), grown AS (
            INSERT INTO fairpost.nodes AS n (id, parent, level, route, class, workspace, key, path)
            SELECT w.id, w.parent, levels[depth + 1], w.route, w.class, w.workspace, w.key,
                   CASE depth WHEN 0 THEN '{}' ELSE w.above || w.id END
            FROM wanted w
            RETURNING n.*
        ), ticking AS (
            INSERT INTO fairpost.node_state (id, parent, key, route, weight, held_until)
            SELECT g.id, g.parent, g.key, g.route, fairpost.weight_of(r.weight, r.tier, f), CASE WHEN depth <> 2 THEN fairpost.held_until(r, p_now) END
            FROM grown g LEFT JOIN LATERAL (
                SELECT * FROM fairpost.sender_rules r
                WHERE r.workspace = g.workspace AND r.level = g.level AND r.key = CASE g.level WHEN 'workspace' THEN '' ELSE g.key END OFFSET 0) r ON true
        )
        SELECT array_agg(g.id) INTO users FROM grown g;

        SELECT array_agg(n.id ORDER BY a.ord) INTO parents
        FROM (SELECT a.ord, parents[a.ord] AS parent,
                  CASE depth WHEN 0 THEN fairpost.root_key(a.route, a.class, lanes[a.ord]) WHEN 1 THEN a.workspace WHEN 2 THEN homes[a.ord] ELSE a.user_name END AS key
              FROM unnest(arrived) WITH ORDINALITY AS a(route, xid, class, workspace, domain, user_name, stream, flow, n, due_at, id, fresh, ord)) a
        CROSS JOIN LATERAL (SELECT n.id FROM fairpost.nodes n WHERE (n.parent, n.key) BETWEEN (a.parent, a.key) AND (a.parent, a.key) LIMIT 1) n;
    END LOOP;
    IF users IS NOT NULL THEN   -- OFFSET 0 keeps the outer DISTINCT from choosing the index of the inner query
        PERFORM fairpost.weigh_domains(ARRAY(SELECT DISTINCT n.parent FROM (SELECT n.parent FROM fairpost.nodes n WHERE n.id = ANY (users) OFFSET 0) n));
    END IF;

    WITH wanted AS (
        SELECT nextval('fairpost.node_serial') AS id, a.*, parents[a.ord] AS parent, homes[a.ord] AS home
        FROM unnest(arrived) WITH ORDINALITY AS a(route, xid, class, workspace, domain, user_name, stream, flow, n, due_at, first_id, fresh, ord)
    ), grown AS (
        INSERT INTO fairpost.nodes AS n (id, parent, level, route, class, workspace, key, path, flow)
        SELECT w.id, w.parent, 'stream', w.route, w.class, w.workspace, w.flow::text, p.path || w.id, w.flow
        FROM wanted w CROSS JOIN LATERAL (SELECT p.path FROM fairpost.nodes p WHERE p.id = w.parent OFFSET 0) p
        RETURNING n.*
    ), labelled AS (
        INSERT INTO fairpost.leaves (node, workspace, home, domain, stream) SELECT w.id, w.workspace, w.home, w.domain, w.stream FROM wanted w
    )
    INSERT INTO fairpost.node_state (id, parent, key, route, flow, head_due, weight, held_until, fifo_root)
    SELECT g.id, g.parent, fairpost.leaf_name(w.stream, w.domain, w.home), g.route, g.flow, 'infinity',
           fairpost.weight_of(s.weight, s.tier, f) * coalesce(d.weight, 1),
           nullif(greatest(s.held_until, s.throttled_until, s.closed_until, d.held_until, d.throttled_until, p_now), p_now),
           CASE WHEN f.share < 100 THEN
               (SELECT root.id FROM fairpost.nodes w CROSS JOIN LATERAL (SELECT * FROM fairpost.nodes root WHERE root.id = w.parent OFFSET 0) root
                WHERE w.id = g.path[1] AND root.key = fairpost.root_key(g.route, g.class, 'fifo')) END
    FROM grown g JOIN wanted w ON w.id = g.id
    LEFT JOIN LATERAL (SELECT * FROM fairpost.sender_rules s WHERE s.workspace = w.workspace AND s.level = 'stream' AND s.key = w.stream OFFSET 0) s ON true
    LEFT JOIN LATERAL (SELECT * FROM fairpost.sender_rules d WHERE d.workspace = w.workspace AND d.level = 'domain' AND d.key = w.domain OFFSET 0) d ON true;
END $$;

-- Returns the arrivals of workspaces that no other transaction has locked, and locks these workspaces, because new nodes may change the weight of an
-- existing domain.
CREATE OR REPLACE FUNCTION fairpost.whose_workspace_is_free(p_route text, arrived fairpost.arrivals[]) RETURNS fairpost.arrivals[]
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    there CONSTANT bigint[] := ARRAY(SELECT n.id FROM fairpost.nodes n
                                     WHERE n.workspace = ANY (ARRAY(SELECT DISTINCT a.workspace FROM unnest(arrived) a)) AND n.level = 'workspace' AND n.route = p_route);
    mine bigint[];
    others text[];
BEGIN
    IF there = '{}' THEN   -- nothing to look up; with an empty list, the planner could choose any partial index
        RETURN arrived;
    END IF;
    mine := fairpost.lock_free(there);
    others := ARRAY(SELECT n.workspace FROM fairpost.nodes n WHERE n.id = ANY (there) AND n.id <> ALL (mine));
    RETURN (SELECT array_agg(a) FROM unnest(arrived) a WHERE a.workspace <> ALL (others));
END $$;

-- Scans of this route's workspaces begin at a certain point. Moves this point forward to the first active workspace. Newcomers also start there.
CREATE OR REPLACE FUNCTION fairpost.move_on(p_route text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    classes CONSTANT fairpost.email_class[] := enum_range(NULL::fairpost.email_class);
    lanes CONSTANT text[] := fairpost.lane_names();
BEGIN
    -- Most accounts have no mail of their own, so their routes have no tree.
    IF NOT EXISTS (
        SELECT FROM unnest(classes) c(class) CROSS JOIN unnest(lanes) l(lane) CROSS JOIN LATERAL (SELECT fairpost.root_key(p_route, c.class, l.lane) AS key) k
        CROSS JOIN LATERAL (SELECT FROM fairpost.nodes n WHERE (n.parent, n.key) BETWEEN (0, k.key) AND (0, k.key) LIMIT 1) n   -- same as in roots_of
    ) THEN
        RETURN;
    END IF;
    UPDATE fairpost.node_state o SET v = first.vtime, turn = o.turn + 1
    FROM (SELECT b.* FROM fairpost.fairness f, unnest(fairpost.lane_names(), fairpost.lane_shares(f)) l(name, share),
                 unnest(fairpost.roots_of(ARRAY[p_route], 'urgent', l.name) || fairpost.roots_of(ARRAY[p_route], 'bulk', l.name)) b WHERE f.single AND l.share > 0) root
    CROSS JOIN LATERAL (
        SELECT c.vtime FROM fairpost.node_state c
        WHERE c.parent = root.node AND c.busy > 0 AND c.held_until IS NULL AND c.vtime >= root.v
        ORDER BY c.vtime LIMIT 1) first
    CROSS JOIN LATERAL (SELECT c.ctid AS spot FROM fairpost.node_state c WHERE c.id = root.node AND c.parent = 0 ORDER BY c.v DESC LIMIT 1) newest
    WHERE o.ctid = newest.spot AND first.vtime > root.v;
END $$;

-- Returns the new e-mails of an arrival that stands for several e-mails. The e-mails are locked, so that if any of them is finished, this is reported
-- afterwards. E-mails that another transaction is finishing are left out. All e-mails of one enqueue call have the same time. The ids of these
-- e-mails start at the id of the arrival and span the minutes that the call took.
CREATE OR REPLACE FUNCTION fairpost.emails_of_note(p_workspace text, p_flow uuid, p_first bigint, p_n integer, p_due timestamptz) RETURNS TABLE (id bigint, campaign_id bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    minutes_max CONSTANT bigint := 10 * 60000::bigint << 20;
    moment timestamptz;
BEGIN
    moment := coalesce((SELECT q.created_at FROM fairpost.queue q WHERE q.id = p_first), (SELECT e.created_at FROM fairpost.emails e WHERE e.id = p_first));
    RETURN QUERY
    SELECT q.id, q.campaign_id FROM fairpost.queue q
    WHERE q.workspace = p_workspace AND q.id >= p_first AND q.id < p_first + minutes_max AND q.flow = p_flow AND q.created_at = moment
    AND fairpost.hour_of(greatest(q.due_at, moment)) = fairpost.hour_of(greatest(p_due, moment))
    ORDER BY q.workspace, q.id LIMIT p_n FOR KEY SHARE SKIP LOCKED;
END $$;

-- Stages one route. The caller has locked the route's row. Returns true if some arrivals or nodes were left for next time because their workspaces
-- are locked.
CREATE OR REPLACE FUNCTION fairpost.absorb_route(r fairpost.routes, p_now timestamptz) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    arrivals_max CONSTANT integer := 5000;
    each_max CONSTANT integer := 200;
    emails_max CONSTANT integer := 5000;   -- number of new e-mails in all arrivals except the last, because each e-mail has an event
    more boolean;                  -- whether some arrivals were not read
    -- In a restored database, transaction ids start over, and a claim may have run for a long time. Once a minute, all arrivals are therefore read
    -- and all nodes woken again, as if this had never been done before.
    sweep CONSTANT boolean := p_now >= r.swept_at + interval '1 minute';
    known CONSTANT pg_snapshot := CASE WHEN sweep THEN '1:1:' ELSE r.seen END;
    older xid8[] := ARRAY(SELECT pg_snapshot_xip(known)) || r.seen_by;
    snapshot pg_snapshot;
    notes tid[];
    arrived fairpost.arrivals[];   -- the arrivals, combined into one per flow
    strangers fairpost.arrivals[];
    homes text[];
    asleep bigint[];
    ended bigint[];
    mine bigint[];                 -- the workspaces that this transaction has locked
    awake bigint[];
    -- The statements specify the ids, because a plain join may read all nodes, depending on the planner's statistics.
    flows uuid[];
    behind boolean := false;
BEGIN
    -- Reads the arrivals that were committed since the last staging. The arrivals are read by transaction, so that dead entries are never scanned
    -- again, even if vacuum cannot remove them for a long time. Only part of a large transaction is read at a time, so that a transaction with ten
    -- thousand new names does not delay others.
    WITH RECURSIVE later(xid) AS (
        (SELECT a.xid FROM fairpost.arrivals a WHERE a.route = r.route AND a.xid >= pg_snapshot_xmax(known) ORDER BY a.xid LIMIT 1)
        UNION ALL
        SELECT (SELECT a.xid FROM fairpost.arrivals a WHERE a.route = r.route AND a.xid > later.xid ORDER BY a.xid LIMIT 1)
        FROM later WHERE later.xid IS NOT NULL
    )
    SELECT pg_current_snapshot(), array_agg(x.ctid) FILTER (WHERE x.emails < emails_max), coalesce(bool_or(x.nth > each_max OR x.emails >= emails_max), false) OR count(*) = arrivals_max
    INTO snapshot, notes, more
    FROM (SELECT a.ctid, a.nth, sum(greatest(a.fresh, 0)) OVER (ROWS UNBOUNDED PRECEDING) - greatest(a.fresh, 0) AS emails
          FROM (SELECT a.ctid, a.nth, a.fresh
                FROM (SELECT later.xid FROM later WHERE later.xid IS NOT NULL UNION SELECT unnest(older) LIMIT arrivals_max) t
                CROSS JOIN LATERAL (
                    SELECT a.ctid, a.fresh, row_number() OVER () AS nth
                    FROM (SELECT a.ctid, a.fresh FROM fairpost.arrivals a WHERE a.route = r.route AND a.xid = t.xid LIMIT each_max + 1) a) a
                LIMIT arrivals_max) a) x;
    SELECT array_agg(c.id) INTO asleep FROM (
        SELECT c.id FROM fairpost.node_state c WHERE c.route = r.route AND c.wake_at >= CASE WHEN sweep THEN '-infinity' ELSE r.woken_until END AND c.wake_at <= p_now
        ORDER BY c.wake_at LIMIT arrivals_max) c;
    SELECT array_agg(c.id) INTO ended FROM (
        SELECT c.id FROM fairpost.node_state c WHERE c.route = r.route AND c.held_until <= p_now ORDER BY c.held_until LIMIT arrivals_max) c;

    IF notes IS NULL AND asleep IS NULL AND ended IS NULL AND NOT sweep THEN
        PERFORM fairpost.move_on(r.route);
        RETURN false;
    END IF;

    WITH gone AS (
        DELETE FROM fairpost.arrivals a WHERE a.ctid = ANY (notes) RETURNING a.*
    ), told AS (
        INSERT INTO fairpost.outbox (at, kind, workspace, email_id, campaign_id)
        SELECT p_now, 'email.queued', g.workspace, q.id, q.campaign_id
        FROM gone g CROSS JOIN LATERAL (SELECT q.id, q.campaign_id FROM fairpost.queue q WHERE q.id = g.id FOR KEY SHARE SKIP LOCKED) q WHERE g.fresh = 1
        UNION ALL
        SELECT p_now, 'email.queued', g.workspace, q.id, q.campaign_id
        FROM gone g CROSS JOIN LATERAL fairpost.emails_of_note(g.workspace, g.flow, g.id, g.fresh, g.due_at) q WHERE g.fresh > 1
    ), planned AS MATERIALIZED (
        SELECT g.*, newest.spot
        FROM (SELECT g.workspace, fairpost.normalize_user(g.user_name) AS user_name, greatest(fairpost.hour_of(g.due_at), fairpost.hour_of(p_now)) AS hour, sum(g.fresh) AS n,
                     coalesce(sum(g.fresh) FILTER (WHERE g.class = 'urgent'), 0) AS urgent, min(g.due_at) AS since
              FROM gone g WHERE g.fresh > 0 GROUP BY 1, 2, 3) g
        LEFT JOIN LATERAL (   -- the route's own counter, which this transaction has locked
            SELECT a.ctid AS spot FROM fairpost.activity a WHERE a.workspace = g.workspace AND a.user_name = g.user_name AND a.hour = g.hour AND a.writer = r.route
            ORDER BY a.turn DESC LIMIT 1) newest ON true
    ), booked AS (
        UPDATE fairpost.activity a SET volume = a.volume + p.n, urgent = a.urgent + p.urgent, turn = a.turn + 1 FROM planned p WHERE a.ctid = p.spot
    ), newly_booked AS (
        INSERT INTO fairpost.activity (workspace, user_name, hour, writer, volume, urgent)
        SELECT p.workspace, p.user_name, p.hour, r.route, p.n, p.urgent FROM planned p WHERE p.spot IS NULL
    ), dirty_senders AS (
        INSERT INTO fairpost.dirty_senders (workspace, user_name, at)
        SELECT p.workspace, p.user_name, least(p.since, p_now) FROM planned p, fairpost.fairness f WHERE f.single AND f.is_scoring AND p.hour <= p_now
    )
    SELECT array_agg(ROW(r.route, pg_current_xact_id(), g.class, g.workspace, g.domain, g.user_name, g.stream, g.flow, g.n, g.due_at, g.id, -g.unserved)::fairpost.arrivals)
    INTO arrived
    FROM (SELECT g.class, g.workspace, g.domain, g.user_name, g.stream, g.flow, sum(g.n)::integer AS n, min(g.due_at) AS due_at, min(g.id) AS id, sum(greatest(-g.fresh, 0))::integer AS unserved
          FROM gone g GROUP BY 1, 2, 3, 4, 5, 6) g;

    -- New names are looked up in the rules, so no rule in their workspaces may change at the same time.
    SELECT array_agg(a) INTO strangers FROM unnest(arrived) a WHERE (SELECT true FROM fairpost.nodes n WHERE n.flow = a.flow LIMIT 1) IS NULL;
    IF strangers IS NOT NULL THEN
        SELECT array_agg(a) INTO strangers FROM unnest(strangers) a
        WHERE a.workspace IN (SELECT w.workspace FROM (SELECT DISTINCT s.workspace FROM unnest(strangers) s) w
                              WHERE pg_try_advisory_xact_lock_shared(fairpost.rules_lock(w.workspace)));
        strangers := fairpost.whose_workspace_is_free(r.route, strangers);
        SELECT h.arrived, h.homes INTO strangers, homes FROM fairpost.find_homes(strangers) h;
        IF strangers IS NOT NULL THEN
            PERFORM fairpost.ensure_nodes(strangers, homes, p_now);
        END IF;
    END IF;

    flows := ARRAY(SELECT a.flow FROM unnest(arrived) a);
    mine := fairpost.lock_free(ARRAY(
        SELECT n.path[1] FROM fairpost.nodes n WHERE n.flow = ANY (flows)
        UNION SELECT n.path[1] FROM fairpost.nodes n WHERE n.id = ANY (asleep || ended)));

    -- Locked workspaces are left for next time, and their arrivals are put back.
    WITH later AS (
        INSERT INTO fairpost.arrivals
        SELECT a.* FROM unnest(arrived) a
        WHERE (SELECT true FROM fairpost.nodes n WHERE n.flow = a.flow AND n.path[1] = ANY (mine) LIMIT 1) IS NULL
        RETURNING 1)
    SELECT EXISTS (SELECT FROM later) OR EXISTS (SELECT FROM fairpost.nodes n WHERE n.id = ANY (asleep || ended) AND n.path[1] <> ALL (mine))
    INTO behind;

    WITH leaf AS (
        SELECT n.id, n.path, a.n, a.due_at, a.id AS first_id FROM unnest(arrived) a JOIN fairpost.nodes n ON n.flow = a.flow
        WHERE n.flow = ANY (flows) AND n.path[1] = ANY (mine)
        UNION ALL
        SELECT n.id, n.path, 0, 'infinity', NULL FROM fairpost.nodes n WHERE n.id = ANY (asleep) AND n.path[1] = ANY (mine)
    ), news AS (
        SELECT c.id, c.spot, c.busy, c.held_until, l.n, l.first_id, l.due_at, least(c.wake_at, l.due_at) AS wake_at
        FROM (SELECT l.id, sum(l.n) AS n, min(l.due_at) AS due_at, min(l.first_id) AS first_id FROM leaf l GROUP BY l.id) l
        CROSS JOIN LATERAL fairpost.node_state_now(ARRAY[l.id]) c
    ), counted AS (
        UPDATE fairpost.node_state c SET waiting = c.waiting + up.n, turn = c.turn + 1
        FROM (SELECT o.spot, w.n FROM (SELECT node, sum(l.n) AS n FROM leaf l, unnest(l.path[1:3]) node GROUP BY node HAVING sum(l.n) <> 0) w
              CROSS JOIN LATERAL fairpost.node_state_now(ARRAY[w.node]) o) up
        WHERE c.ctid = up.spot
    ), noted AS (
        UPDATE fairpost.node_state c SET
            waiting = c.waiting + x.n,
            head_id = CASE WHEN x.due_at < c.head_due THEN coalesce(x.first_id, 0) WHEN x.due_at = c.head_due THEN least(c.head_id, x.first_id) ELSE c.head_id END,
            head_due = least(c.head_due, x.due_at),
            busy = CASE WHEN x.wake_at <= p_now THEN 1 ELSE c.busy END,
            wake_at = CASE WHEN x.busy = 0 AND x.wake_at > p_now AND x.wake_at < 'infinity' THEN x.wake_at END,
            turn = c.turn + 1
        FROM news x WHERE c.ctid = x.spot
    )
    SELECT array_agg(x.id) INTO awake FROM news x WHERE x.busy = 0 AND x.wake_at <= p_now AND x.held_until IS NULL;

    -- Charges for e-mails that were not sent are refunded at every level, but no node gets a place before the point at which scans begin.
    UPDATE fairpost.node_state c SET vtime = greatest(back.v, c.vtime - back.n / c.weight), turn = c.turn + 1
    FROM (SELECT own.spot, above.v, x.n
          FROM (SELECT node, sum(-a.fresh) AS n FROM unnest(arrived) a JOIN fairpost.nodes n ON n.flow = a.flow, unnest(n.path) node
                WHERE a.fresh < 0 AND n.flow = ANY (flows) AND n.path[1] = ANY (mine) GROUP BY node) x
          CROSS JOIN LATERAL fairpost.node_state_now(ARRAY[x.node]) own CROSS JOIN LATERAL fairpost.node_state_now(ARRAY[own.parent]) above) back
    WHERE c.ctid = back.spot;
    PERFORM fairpost.move_on(r.route);

    -- A held node keeps its count of mail to serve, so that it is active again when the hold ends.
    WITH freed AS (
        UPDATE fairpost.node_state c SET held_until = NULL, turn = c.turn + 1
        FROM (SELECT o.spot FROM fairpost.nodes n CROSS JOIN LATERAL fairpost.node_state_now(ARRAY[n.id]) o WHERE n.id = ANY (ended) AND n.path[1] = ANY (mine)) free
        WHERE c.ctid = free.spot RETURNING c.id, c.busy)
    SELECT awake || array_agg(f.id) INTO awake FROM freed f WHERE f.busy > 0;

    PERFORM fairpost.activate(awake);

    UPDATE fairpost.routes o SET
        seen = CASE WHEN more THEN known ELSE snapshot END,
        seen_by = pg_current_xact_id(),
        swept_at = CASE WHEN sweep THEN p_now ELSE o.swept_at END,
        woken_until = CASE WHEN behind OR cardinality(asleep) = arrivals_max THEN o.woken_until
                           ELSE greatest(o.woken_until, p_now - interval '10 seconds') END,  -- a claim in progress may still set a time that has just passed
        turn = o.turn + 1
    WHERE o.route = r.route AND o.turn = r.turn;
    RETURN behind;
END $$;

-- Stages the routes that no other transaction is staging. Returns true if some arrivals or nodes were left for next time.
CREATE OR REPLACE FUNCTION fairpost.absorb_arrivals(p_routes text[], p_now timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    r fairpost.routes;
    staged integer := 0;
    behind boolean := false;
BEGIN
    FOR r IN SELECT o.* FROM (SELECT w.route FROM unnest(p_routes) w(route) ORDER BY w.route) w   -- same as in lock_free
             CROSS JOIN LATERAL (SELECT o.turn FROM fairpost.routes o WHERE o.route = w.route ORDER BY o.turn DESC LIMIT 1) newest
             CROSS JOIN LATERAL (SELECT * FROM fairpost.routes o WHERE o.route = w.route AND o.turn >= newest.turn FOR UPDATE SKIP LOCKED) o LOOP
        behind := fairpost.absorb_route(r, coalesce(p_now, clock_timestamp())) OR behind;
        staged := staged + 1;
    END LOOP;
    RETURN behind OR staged < cardinality(p_routes);
END $$;
