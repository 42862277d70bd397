-- Lanes. The flow tree has a root for each route and class and, if lanes are used, for each lane. The lane of a user's mail depends on the user's
-- tier. All mail from workspaces outside the fair queue is in the lane `fifo`.

-- The lanes throttled, low, normal, high and FIFO, always in this order. If lanes are not used, all senders are in normal.
CREATE OR REPLACE FUNCTION fairpost.lane_names() RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT '{throttled,low,"",high,fifo}'::text[]
$$;

-- Returns each lane's share of the capacity; 0 means that the lane is not in use.
CREATE OR REPLACE FUNCTION fairpost.lane_shares(f fairpost.fairness) RETURNS integer[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN f.lanes THEN ARRAY(SELECT s * f.share FROM unnest(f.shares) s) || 100 * (100 - f.share)
                ELSE ARRAY[0, 0, f.share, 0, 100 - f.share] END
$$;

CREATE OR REPLACE FUNCTION fairpost.root_key(p_route text, p_class fairpost.email_class, lane text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_route || E'\x1f' || CASE p_class WHEN 'urgent' THEN 'urgent' ELSE 'bulk' END || CASE lane WHEN '' THEN '' ELSE E'\x1f' || lane END
$$;

-- Returns the user's tier or the workspace's tier, whichever is lower.
CREATE OR REPLACE FUNCTION fairpost.tier_of(p_workspace text, p_user text) RETURNS smallint
LANGUAGE sql STABLE AS $$
    SELECT coalesce(least(
        (SELECT r.tier FROM fairpost.sender_rules r WHERE r.workspace = p_workspace AND r.level = 'workspace' AND r.key = ''),
        (SELECT r.tier FROM fairpost.sender_rules r WHERE r.workspace = p_workspace AND r.level = 'user' AND r.key = p_user)), 1::smallint)
$$;

-- Returns whether the fair queue serves a workspace. A given share always selects the same workspaces, and a larger share includes all workspaces
-- that a smaller share selects.
CREATE OR REPLACE FUNCTION fairpost.is_fair(p_workspace text, p_share smallint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_share >= 100 OR abs(hashtextextended('fairpost ' || p_workspace, 0) % 100) < p_share
$$;

CREATE OR REPLACE FUNCTION fairpost.lane_of(p_workspace text, p_user text, f fairpost.fairness) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT fairpost.is_fair(p_workspace, f.share) THEN
        RETURN 'fifo';
    ELSIF NOT f.lanes THEN
        RETURN '';
    END IF;
    RETURN (fairpost.lane_names())[fairpost.tier_of(p_workspace, p_user) + 2];
END $$;

-- Returns the node with this name below a parent. Creates it if necessary, with the rules that apply to it. The caller holds the lock that prevents
-- other transactions from creating it at the same time.
CREATE OR REPLACE FUNCTION fairpost.node_at(
    p_parent bigint, p_level fairpost.node_level, p_route text, p_class fairpost.email_class, p_workspace text, p_key text, p_now timestamptz
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    found bigint := (SELECT n.id FROM fairpost.nodes n WHERE (n.parent, n.key) BETWEEN (p_parent, p_key) AND (p_parent, p_key) LIMIT 1);   -- same as in roots_of
BEGIN
    IF found IS NULL THEN
        found := nextval('fairpost.node_serial');
        INSERT INTO fairpost.nodes (id, parent, level, route, class, workspace, key, path)
        SELECT found, p_parent, p_level, p_route, p_class, p_workspace, p_key,
               CASE p_level WHEN 'route' THEN '{}' ELSE (SELECT p.path FROM fairpost.nodes p WHERE p.id = p_parent) || found END;
        INSERT INTO fairpost.node_state (id, parent, key, route, weight, held_until)
        SELECT found, p_parent, p_key, p_route, fairpost.weight_of(r.weight, r.tier, f), CASE WHEN p_level <> 'domain' THEN fairpost.held_until(r, p_now) END
        FROM fairpost.fairness f LEFT JOIN fairpost.sender_rules r ON r.workspace = p_workspace AND r.level = p_level
            AND r.key = CASE p_level WHEN 'workspace' THEN '' ELSE p_key END
        WHERE f.single;
    END IF;
    RETURN found;
END $$;

-- Moves the users of a workspace (or one of them) to their current lanes. The cost depends on the number of nodes, not on the number of e-mails. All
-- users are moved together. If they were moved one by one, the nodes above them would get a new version each time, and every reader would have to scan
-- all versions.
CREATE OR REPLACE FUNCTION fairpost.change_lanes(p_workspace text, p_user text, p_now timestamptz) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    f fairpost.fairness;
    g record;
    to_root bigint; to_workspace bigint; to_domain bigint;
    users bigint[] := '{}'; domains bigint[] := '{}'; workspaces bigint[] := '{}'; fifo_roots bigint[] := '{}';   -- where each node is moved to
    left_behind bigint[];
    active bigint[];
BEGIN
    PERFORM pg_advisory_xact_lock(fairpost.rules_lock(p_workspace));
    SELECT * INTO f FROM fairpost.fairness;
    PERFORM c.id FROM fairpost.node_state c
    WHERE c.id IN (SELECT n.id FROM fairpost.nodes n WHERE n.workspace = p_workspace AND n.level = 'workspace') ORDER BY c.id FOR UPDATE;
    PERFORM FROM fairpost.routes r   -- so that no roots are created in the meantime
    WHERE r.route IN (SELECT n.route FROM fairpost.nodes n WHERE n.workspace = p_workspace AND n.level = 'workspace') ORDER BY r.route FOR UPDATE;

    FOR g IN
        SELECT u.route, u.class, u.lane, u.domain, array_agg(u.id) AS users
        FROM (SELECT n.id, n.route, n.class, d.key AS domain, fairpost.lane_of(p_workspace, n.key, f) AS lane, r.key AS root_key
              FROM fairpost.nodes n JOIN fairpost.nodes d ON d.id = n.path[2] JOIN fairpost.nodes w ON w.id = n.path[1] JOIN fairpost.nodes r ON r.id = w.parent
              WHERE n.workspace = p_workspace AND n.level = 'user' AND (p_user IS NULL OR n.key = p_user)) u
        WHERE u.root_key <> fairpost.root_key(u.route, u.class, u.lane) GROUP BY 1, 2, 3, 4
    LOOP
        to_root := fairpost.node_at(0, 'route', g.route, g.class, '', fairpost.root_key(g.route, g.class, g.lane), p_now);
        to_workspace := fairpost.node_at(to_root, 'workspace', g.route, g.class, p_workspace, p_workspace, p_now);
        to_domain := fairpost.node_at(to_workspace, 'domain', g.route, g.class, p_workspace, g.domain, p_now);
        users := users || g.users;
        domains := domains || array_fill(to_domain, ARRAY[cardinality(g.users)]);
        workspaces := workspaces || array_fill(to_workspace, ARRAY[cardinality(g.users)]);
        fifo_roots := fifo_roots || array_fill(CASE g.lane WHEN 'fifo' THEN to_root END, ARRAY[cardinality(g.users)]);
    END LOOP;
    IF users = '{}' THEN
        RETURN;
    END IF;

    left_behind := ARRAY(SELECT DISTINCT w.id FROM fairpost.nodes n, unnest(n.path[1:2]) w(id) WHERE n.id = ANY (users));
    active := ARRAY(SELECT c.id FROM (SELECT * FROM fairpost.node_state c WHERE c.id = ANY (users) OFFSET 0) c WHERE c.busy > 0 AND c.held_until IS NULL);
    PERFORM fairpost.deactivate(active);
    PERFORM fairpost.count_above(users, -1);
    UPDATE fairpost.nodes n SET parent = m.domain, path = ARRAY[m.workspace, m.domain, n.id]
    FROM unnest(users, domains, workspaces) m(id, domain, workspace) WHERE n.id = m.id;
    UPDATE fairpost.nodes n SET path = u.path || n.id FROM fairpost.nodes u WHERE u.id = ANY (users) AND n.parent = u.id;
    UPDATE fairpost.node_state c SET parent = m.domain, vtime = 0 FROM unnest(users, domains) m(id, domain) WHERE c.id = m.id;
    UPDATE fairpost.node_state c SET fifo_root = m.root
    FROM unnest(users, fifo_roots) m(id, root) JOIN fairpost.nodes n ON n.parent = m.id WHERE c.id = n.id AND c.fifo_root IS DISTINCT FROM m.root;
    PERFORM fairpost.count_above(users, 1);
    PERFORM fairpost.activate(active);
    PERFORM fairpost.remove_childless(left_behind);
    PERFORM fairpost.weigh_domains(left_behind || domains);
END $$;

-- Removes the given nodes that have no children left.
CREATE OR REPLACE FUNCTION fairpost.remove_childless(ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    FOR depth IN REVERSE 3..1 LOOP
        WITH gone AS (
            DELETE FROM fairpost.nodes n WHERE n.id = ANY (ids) AND cardinality(n.path) = depth
            AND NOT EXISTS (SELECT FROM fairpost.nodes child WHERE child.parent = n.id) RETURNING n.id)
        DELETE FROM fairpost.node_state c USING gone WHERE c.id = gone.id;
    END LOOP;
END $$;

-- Adds these nodes' counts of waiting e-mails to the counts of the nodes above them, up to the workspace, or subtracts them from those counts.
DROP FUNCTION IF EXISTS fairpost.count_above(bigint[], integer);
CREATE OR REPLACE FUNCTION fairpost.count_above(ids bigint[], sign integer) RETURNS void
LANGUAGE sql AS $$
    UPDATE fairpost.node_state c SET waiting = c.waiting + sign * above.n
    FROM (SELECT w.id, sum(own.waiting) AS n FROM fairpost.nodes n JOIN fairpost.node_state own ON own.id = n.id, unnest(n.path[1:cardinality(n.path) - 1]) w(id)
          WHERE n.id = ANY (ids) GROUP BY w.id HAVING sum(own.waiting) <> 0) above
    WHERE c.id = above.id
$$;
DROP FUNCTION IF EXISTS fairpost.remove_if_childless(bigint);

-- Returns up to `p_limit` e-mails of one class, taken from the lanes according to their shares. Each slot goes to the lane that has been served least
-- relative to its share, measured at the middle of the next slot. Slots that a lane cannot fill go to the others. While other lanes have mail, a lane
-- gets no more than the limit of its tier, which depends on the health of the queue. `served` (how many e-mails have been served from each lane) and
-- `open` (whether the lane has more mail) are passed from one class to the next.
DROP FUNCTION IF EXISTS fairpost.pick_by_lanes(text[], fairpost.email_class, fairpost.fairness, bigint, bigint, integer, timestamptz, double precision[], boolean[]);
CREATE OR REPLACE FUNCTION fairpost.pick_by_lanes(
    routes text[], p_class fairpost.email_class, f fairpost.fairness, for_account bigint[], for_epoch bigint[], p_used integer, p_limit integer, blocked text[], p_now timestamptz,
    INOUT served double precision[], INOUT open boolean[], OUT ids bigint[], OUT skipped boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    names CONSTANT text[] := fairpost.lane_names();
    shares CONSTANT integer[] := fairpost.lane_shares(f);
    factors CONSTANT double precision[] := '{0.1,0.5,1,1.5,1000}';
    room integer[];
    able boolean[];
    quota integer[];
    virtual double precision[];
    chosen integer;
    got record;
    n integer;
BEGIN
    ids := '{}';
    skipped := false;
    IF p_limit <= 0 THEN   -- no e-mail was requested, so nothing is left for other lanes
        RETURN;
    ELSIF NOT f.lanes AND f.share = 100 THEN
        SELECT p.ids, p.skipped INTO ids, skipped
        FROM fairpost.pick(fairpost.roots_of(routes, p_class, ''), for_account, for_epoch, p_used, p_limit, blocked, p_now, false) p;
        RETURN;
    END IF;
    able := ARRAY(SELECT s > 0 FROM unnest(shares) s);
    FOR is_bounded IN REVERSE 1..0 LOOP
        FOR i IN 1..5 LOOP
            room[i] := CASE WHEN NOT able[i] THEN 0 WHEN is_bounded = 1 AND f.lanes THEN greatest(1, floor(p_limit * f.multiplier * factors[i])) ELSE p_limit END;
        END LOOP;
        WHILE cardinality(ids) < p_limit LOOP
            quota := '{0,0,0,0,0}';
            virtual := served;
            FOR slot IN 1..p_limit - cardinality(ids) LOOP
                SELECT i INTO chosen FROM generate_series(1, 5) i WHERE able[i] AND quota[i] < room[i] ORDER BY virtual[i] + 0.5 / shares[i], i LIMIT 1;
                EXIT WHEN chosen IS NULL;
                quota[chosen] := quota[chosen] + 1;
                virtual[chosen] := virtual[chosen] + 1.0 / shares[chosen];
            END LOOP;
            EXIT WHEN quota = '{0,0,0,0,0}';
            FOR i IN 1..5 LOOP
                CONTINUE WHEN quota[i] = 0;
                got := fairpost.pick(fairpost.roots_of(routes, p_class, names[i]), for_account, for_epoch, p_used + cardinality(ids), quota[i], blocked, p_now, names[i] = 'fifo');
                n := cardinality(got.ids);
                ids := ids || got.ids;
                skipped := skipped OR got.skipped;
                served[i] := served[i] + n::double precision / shares[i];
                room[i] := room[i] - n;
                able[i] := n = quota[i];
            END LOOP;
        END LOOP;
    END LOOP;
    FOR i IN 1..5 LOOP
        open[i] := open[i] OR able[i];
    END LOOP;
END $$;

-- Returns the values to keep until the next claim. A lane with no more mail accumulates no credit, and only the differences between lanes count.
CREATE OR REPLACE FUNCTION fairpost.carry_over(served double precision[], open boolean[]) RETURNS double precision[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN true = ANY (open) THEN
        (SELECT array_agg(greatest(s, now_at) - now_at ORDER BY i) FROM unnest(served) WITH ORDINALITY x(s, i),
                (SELECT min(s) AS now_at FROM unnest(served, open) y(s, o) WHERE o) first)
        ELSE '{0,0,0,0,0}' END
$$;

-- Sets how capacity is shared. After a change, all senders are moved and reweighted in one step. Returns whether the settings changed.
CREATE OR REPLACE FUNCTION fairpost.lay_fairness(
    p_share smallint, p_lanes boolean, p_weights double precision[], p_shares integer[], p_scoring boolean, p_queue_max bigint, p_plans text DEFAULT '', p_now timestamptz DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    before fairpost.fairness;
    w text;
BEGIN
    SELECT * INTO before FROM fairpost.fairness FOR UPDATE;
    IF (before.share, before.lanes, before.weights, before.shares, before.is_scoring, before.queue_max, before.plans)
        = (p_share, p_lanes, p_weights, p_shares, p_scoring, p_queue_max, p_plans) THEN
        RETURN false;
    END IF;
    IF before.plans <> p_plans THEN   -- locked first, because an application may hold a lock on a sender, and other transactions should not have to wait for it
        UPDATE fairpost.senders s SET look_at = '-infinity' WHERE s.plan IS NOT NULL;
    END IF;
    PERFORM FROM fairpost.routes r ORDER BY r.route FOR UPDATE;   -- so that nothing is staged according to the old settings
    UPDATE fairpost.fairness f SET share = p_share, lanes = p_lanes, weights = p_weights, shares = p_shares, is_scoring = p_scoring, queue_max = p_queue_max,
        plans = p_plans;

    IF (before.share, before.lanes, before.weights) <> (p_share, p_lanes, p_weights) THEN
        FOR w IN SELECT DISTINCT n.workspace FROM fairpost.nodes n WHERE n.level = 'workspace' ORDER BY 1 LOOP
            PERFORM fairpost.change_lanes(w, NULL, t);
            PERFORM fairpost.weigh(ARRAY(
                SELECT n.id FROM fairpost.sender_rules r JOIN fairpost.nodes n ON n.workspace = r.workspace AND n.level = r.level AND (r.level = 'workspace' OR n.key = r.key)
                WHERE r.workspace = w AND r.level IN ('workspace', 'user')));   -- senders that have a tier
        END LOOP;
    END IF;
    INSERT INTO fairpost.events (at, kind, subject, detail)
    SELECT t, 'fairness', 'everything', jsonb_build_object('share', f.share, 'lanes', f.lanes, 'weights', f.weights, 'shares', f.shares)
    FROM fairpost.fairness f;
    RETURN true;
END $$;
