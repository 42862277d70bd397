-- Decides where a user is attached in the flow tree. A user is attached below a single domain, the user's home, regardless of the domain in From.
-- Share, weight and throttle then apply to all of the user's mail, and sending from another domain gives no advantage. Mail without a user is
-- attached below its From domain.
--
-- The home is the first proven domain that the user sent from or, if there is none, the first domain. The home is determined when the user's mail is
-- staged, so that enqueueing never waits for it. Afterwards, it changes only through set_sender or when the user first sends from a proven domain.
--
-- A leaf stores the From domain of its e-mails, so a rule about a domain applies to the domain's leaves wherever they are attached:
--
--     acme ─ acme.test ─ ann ─┬─ news (From acme.test)         a hold on shop.test stops only the second leaf;
--                             └─ news (From shop.test)         a hold on acme.test stops only the first leaf, not the nodes of Ann or the domain

-- Only one staging run at a time determines the homes of a workspace's users. Other runs skip these users for now.
CREATE OR REPLACE FUNCTION fairpost.homes_lock(workspace text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT fairpost.rules_lock(workspace) + 1024   -- the numbers after the thousand locks for rules
$$;

-- Returns the workspace's proven domain that covers the given domain (the domain itself or a parent), or null if there is none.
CREATE OR REPLACE FUNCTION fairpost.proven_domain(p_workspace text, p_domain text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT d.domain FROM fairpost.domains d, split_part(fairpost.normalize_address('x@' || p_domain), '@', 2) given   -- in DNS form
    WHERE d.workspace = p_workspace AND d.proven_at IS NOT NULL AND p_domain <> '' AND (given = d.domain OR right(given, length(d.domain) + 1) = '.' || d.domain)
    ORDER BY length(d.domain) DESC LIMIT 1
$$;

-- Determines the homes of senders that have no home or no proven home yet. Senders that another process is working on are left out. Returns the
-- arrivals that have a home, each with its domain. The caller holds the rule locks of their workspaces.
CREATE OR REPLACE FUNCTION fairpost.find_homes(INOUT arrived fairpost.arrivals[], OUT homes text[])
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    workspaces text[]; users text[];   -- the senders without a proven home
    mine text[];                       -- the workspaces whose homes only this process determines now
BEGIN
    SELECT array_agg(x.workspace), array_agg(x.user_name) INTO workspaces, users
    FROM (SELECT DISTINCT a.workspace, a.user_name FROM unnest(arrived) a
          LEFT JOIN LATERAL (SELECT bool_or(h.is_proven) AS is_proven FROM fairpost.homes h WHERE h.workspace = a.workspace AND h.user_name = a.user_name) h ON true
          WHERE a.user_name <> '' AND (h.is_proven IS NULL OR NOT h.is_proven AND fairpost.proven_domain(a.workspace, a.domain) IS NOT NULL)) x;
    mine := ARRAY(SELECT w.name FROM (SELECT DISTINCT unnest(workspaces) AS name) w WHERE pg_try_advisory_xact_lock(fairpost.homes_lock(w.name)));
    IF mine <> '{}' THEN
        WITH undecided AS MATERIALIZED (
            SELECT x.workspace, x.user_name FROM unnest(workspaces, users) x(workspace, user_name) WHERE x.workspace = ANY (mine)
        ), candidate AS (
            SELECT u.workspace, u.user_name, a.domain, a.id, true AS is_new FROM undecided u JOIN unnest(arrived) a USING (workspace, user_name)
            UNION ALL   -- arrivals that are not staged yet, on this or another route
            SELECT u.workspace, u.user_name, a.domain, a.id, true
            FROM undecided u CROSS JOIN LATERAL (   -- not all arrivals, because a million may have arrived while no engine was running
                SELECT a.domain, a.id FROM fairpost.arrivals a WHERE a.workspace = u.workspace AND a.user_name = u.user_name AND a.n > 0 LIMIT 1000) a
            UNION ALL   -- the domains that senders were attached to before homes existed
            SELECT u.workspace, u.user_name, d.key, n.id, false
            FROM undecided u
            CROSS JOIN LATERAL (   -- a range in this order, to keep the planner from using the index on parent, which also contains keys
                SELECT * FROM fairpost.nodes n WHERE n.workspace = u.workspace AND n.level = 'user' AND n.key BETWEEN u.user_name AND u.user_name ORDER BY n.key) n
            CROSS JOIN LATERAL (SELECT * FROM fairpost.nodes d WHERE d.id = n.parent OFFSET 0) d
        ), judged AS (
            SELECT c.*, CASE WHEN (SELECT true FROM fairpost.domains d WHERE d.workspace = c.workspace LIMIT 1)   -- most workspaces have no domains and need no normalization
                        THEN fairpost.proven_domain(c.workspace, c.domain) END AS proven
            FROM (SELECT c.workspace, c.user_name, c.domain, c.is_new, min(c.id) AS id FROM candidate c GROUP BY 1, 2, 3, 4) c
        )
        INSERT INTO fairpost.homes AS h (workspace, user_name, is_given, domain, is_proven)
        SELECT DISTINCT ON (j.workspace, j.user_name) j.workspace, j.user_name, false, coalesce(j.proven, j.domain), j.proven IS NOT NULL
        FROM judged j ORDER BY j.workspace, j.user_name, j.proven IS NULL, j.is_new, j.id
        ON CONFLICT (workspace, user_name, is_given) DO UPDATE SET domain = excluded.domain, is_proven = true, is_settled = h.domain = excluded.domain
        WHERE excluded.is_proven AND NOT h.is_proven;
    END IF;
    SELECT array_agg(x.a ORDER BY x.id), array_agg(x.domain ORDER BY x.id) INTO arrived, homes
    FROM (SELECT a, a.id, CASE a.user_name WHEN '' THEN a.domain ELSE (
              SELECT h.domain FROM fairpost.homes h WHERE h.workspace = a.workspace AND h.user_name = a.user_name ORDER BY h.is_given DESC LIMIT 1) END AS domain
          FROM unnest(arrived) a) x
    WHERE x.domain IS NOT NULL;
END $$;

-- Returns the name that identifies a leaf among its siblings in a claim. The name is the same below a pool and below an account's own route.
CREATE OR REPLACE FUNCTION fairpost.leaf_name(stream text, domain text, home text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN domain = home THEN stream ELSE stream || E'\x1f' || domain END
$$;

-- Returns the leaves with e-mails in this stream, or with this domain in From.
CREATE OR REPLACE FUNCTION fairpost.leaves_of(p_workspace text, p_level fairpost.node_level, p_key text) RETURNS SETOF bigint
LANGUAGE sql STABLE AS $$
    SELECT l.node FROM fairpost.leaves l WHERE p_level = 'stream' AND l.workspace = p_workspace AND l.stream = p_key
    UNION ALL
    SELECT l.node FROM fairpost.leaves l WHERE p_level = 'domain' AND l.workspace = p_workspace AND l.domain = p_key
    UNION ALL   -- leaves from before homes existed
    SELECT n.id FROM fairpost.nodes n WHERE p_level = 'stream' AND n.workspace = p_workspace AND n.level = 'stream' AND n.key = p_key
    UNION ALL
    SELECT n.id FROM fairpost.nodes d JOIN fairpost.nodes u ON u.parent = d.id JOIN fairpost.nodes n ON n.parent = u.id
    WHERE p_level = 'domain' AND d.workspace = p_workspace AND d.level = 'domain' AND d.key = p_key
    AND NOT EXISTS (SELECT FROM fairpost.leaves l WHERE l.node = n.id)
$$;

-- Returns the rules that apply to leaves, by stream and by From domain.
CREATE OR REPLACE FUNCTION fairpost.said_of_leaves(ids bigint[], p_now timestamptz) RETURNS TABLE (id bigint, until timestamptz, weight double precision)
LANGUAGE sql STABLE AS $$
    SELECT n.id, nullif(greatest(s.held_until, s.throttled_until, s.closed_until, d.held_until, d.throttled_until, p_now), p_now), fairpost.weight_of(s.weight, s.tier, f) * coalesce(d.weight, 1)
    FROM fairpost.nodes n
    LEFT JOIN fairpost.leaves l ON l.node = n.id
    LEFT JOIN fairpost.nodes above ON above.id = n.path[2] AND l.node IS NULL
    LEFT JOIN fairpost.sender_rules s ON s.workspace = n.workspace AND s.level = 'stream' AND s.key = coalesce(l.stream, n.key)
    LEFT JOIN fairpost.sender_rules d ON d.workspace = n.workspace AND d.level = 'domain' AND d.key = coalesce(l.domain, above.key),
    fairpost.fairness f
    WHERE f.single AND n.id = ANY (ids) AND n.level = 'stream'
$$;

-- Sets the weights of these nodes according to the rules. The caller has locked their workspaces. A domain never weighs more than the heaviest user
-- whose home it is, so a throttled sender gains nothing from a separate domain.
CREATE OR REPLACE FUNCTION fairpost.weigh(ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fairpost.node_state c SET weight = x.weight
    FROM (SELECT n.id, fairpost.weight_of(r.weight, r.tier, f) AS weight
          FROM fairpost.nodes n LEFT JOIN fairpost.sender_rules r ON r.workspace = n.workspace AND r.level = n.level AND r.key = CASE n.level WHEN 'workspace' THEN '' ELSE n.key END,
               fairpost.fairness f
          WHERE f.single AND n.id = ANY (ids) AND n.level IN ('workspace', 'user')
          UNION ALL
          SELECT l.id, l.weight FROM fairpost.said_of_leaves(ids, 'epoch') l) x
    WHERE c.id = x.id AND c.weight <> x.weight;
    PERFORM fairpost.weigh_domains(ARRAY(
        SELECT DISTINCT CASE n.level WHEN 'user' THEN n.parent ELSE n.id END FROM fairpost.nodes n WHERE n.id = ANY (ids) AND n.level IN ('domain', 'user')));
END $$;

CREATE OR REPLACE FUNCTION fairpost.weigh_domains(ids bigint[]) RETURNS void
LANGUAGE sql SET plan_cache_mode = force_custom_plan AS $$
    UPDATE fairpost.node_state c SET weight = x.weight, turn = c.turn + 1
    FROM (SELECT newest.spot, newest.weight AS before, coalesce(r.weight, 1) * CASE
                     WHEN (SELECT true FROM fairpost.nodes u CROSS JOIN LATERAL (SELECT k.weight FROM fairpost.node_state k WHERE k.id = u.id ORDER BY k.turn DESC LIMIT 1) k
                           WHERE u.parent = n.id AND k.weight >= 1 LIMIT 1) THEN 1   -- the usual case, which is quick to detect
                     ELSE coalesce((SELECT max(k.weight) FROM fairpost.nodes u CROSS JOIN LATERAL (SELECT k.weight FROM fairpost.node_state k WHERE k.id = u.id ORDER BY k.turn DESC LIMIT 1) k
                                    WHERE u.parent = n.id), 1) END AS weight
          FROM fairpost.nodes n
          LEFT JOIN LATERAL (SELECT r.weight FROM fairpost.sender_rules r WHERE r.workspace = n.workspace AND r.level = 'domain' AND r.key = n.key OFFSET 0) r ON true
          CROSS JOIN LATERAL (SELECT c.ctid AS spot, c.weight FROM fairpost.node_state c WHERE c.id = n.id ORDER BY c.turn DESC LIMIT 1) newest
          WHERE n.id = ANY (ids)) x
    WHERE c.ctid = x.spot AND x.before <> x.weight
$$;

-- Moves the leaves of one user to the user's current home. Leaves created before homes existed stay where they are until they are empty. The cost
-- depends on the number of nodes, not on the number of e-mails. Returns false if all leaves are already there, or if the user is locked.
CREATE OR REPLACE FUNCTION fairpost.settle_home(p_now timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET lock_timeout = '1s' AS $$
DECLARE
    h fairpost.homes;
BEGIN
    SELECT * INTO h FROM fairpost.homes x WHERE NOT x.is_settled LIMIT 1;   -- no ORDER BY, because it could make the planner use the primary key, which covers all homes
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM FROM fairpost.fairness f FOR SHARE;   -- as in set_tier, locked before the rules; as in staging, the rules are locked before the home
    PERFORM pg_advisory_xact_lock(fairpost.rules_lock(h.workspace));
    PERFORM FROM fairpost.homes x WHERE x.workspace = h.workspace AND x.user_name = h.user_name AND x.is_given = h.is_given AND NOT x.is_settled FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM fairpost.move_home(h.workspace, h.user_name, coalesce(p_now, clock_timestamp()));
    UPDATE fairpost.homes x SET is_settled = true WHERE x.workspace = h.workspace AND x.user_name = h.user_name AND x.is_given = h.is_given;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

-- The caller holds the workspace's rule lock.
CREATE OR REPLACE FUNCTION fairpost.move_home(p_workspace text, p_user text, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    now_at CONSTANT text := (SELECT h.domain FROM fairpost.homes h WHERE h.workspace = p_workspace AND h.user_name = p_user ORDER BY h.is_given DESC LIMIT 1);
    g record;
    to_domain bigint; to_user bigint;
    moved bigint[] := '{}'; parents bigint[] := '{}';   -- each leaf with its new parent
    left_behind bigint[];
    active bigint[];
BEGIN
    PERFORM c.id FROM fairpost.node_state c
    WHERE c.id IN (SELECT n.path[1] FROM fairpost.nodes n WHERE n.workspace = p_workspace AND n.level = 'user' AND n.key = p_user) ORDER BY c.id FOR UPDATE;
    FOR g IN
        SELECT u.route, u.class, u.path[1] AS above, array_agg(n.id) AS leaves
        FROM fairpost.nodes u JOIN fairpost.nodes n ON n.parent = u.id JOIN fairpost.leaves l ON l.node = n.id
        WHERE u.workspace = p_workspace AND u.level = 'user' AND u.key = p_user AND l.home <> now_at GROUP BY 1, 2, 3
    LOOP
        to_domain := fairpost.node_at(g.above, 'domain', g.route, g.class, p_workspace, now_at, p_now);
        to_user := fairpost.node_at(to_domain, 'user', g.route, g.class, p_workspace, p_user, p_now);
        moved := moved || g.leaves;
        parents := parents || array_fill(to_user, ARRAY[cardinality(g.leaves)]);
    END LOOP;
    left_behind := ARRAY(SELECT DISTINCT w.id FROM fairpost.nodes n, unnest(n.path[2:3]) w(id) WHERE n.id = ANY (moved));
    active := ARRAY(SELECT c.id FROM (SELECT * FROM fairpost.node_state c WHERE c.id = ANY (moved) OFFSET 0) c WHERE c.busy > 0 AND c.held_until IS NULL);
    PERFORM fairpost.deactivate(active);
    PERFORM fairpost.count_above(moved, -1);
    UPDATE fairpost.leaves l SET home = now_at WHERE l.node = ANY (moved);
    UPDATE fairpost.nodes n SET parent = u.id, path = u.path || n.id FROM unnest(moved, parents) m(id, parent) JOIN fairpost.nodes u ON u.id = m.parent WHERE n.id = m.id;
    UPDATE fairpost.node_state c SET parent = m.parent, vtime = 0, key = fairpost.leaf_name(l.stream, l.domain, l.home)
    FROM unnest(moved, parents) m(id, parent) JOIN fairpost.leaves l ON l.node = m.id WHERE c.id = m.id;
    PERFORM fairpost.count_above(moved, 1);
    PERFORM fairpost.activate(active);
    PERFORM fairpost.remove_childless(left_behind);
    PERFORM fairpost.weigh_domains(left_behind || ARRAY(SELECT n.parent FROM fairpost.nodes n WHERE n.id = ANY (parents)));
END $$;
