-- Rules. A rule is created by a person or a policy and concerns one name in a workspace. A rule applies immediately to all mail below this name, both
-- waiting and future. The cost of a rule depends on the depth of the tree, never on the number of waiting e-mails.

CREATE OR REPLACE FUNCTION fairpost.rules_lock(workspace text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT 7381526668557576192 + (hashtextextended(workspace, 0) & 1023)   -- all workspaces share a thousand locks, because a change to the fairness settings takes all of them
$$;

-- Returns the nodes that a rule about this name applies to, and locks their workspaces, so that no new node is staged in the meantime. For a domain,
-- these are the domain's node (which carries the weight) and the leaves with the domain in From (which a hold stops).
CREATE OR REPLACE FUNCTION fairpost.lock_named(p_workspace text, p_level fairpost.node_level, p_key text) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    named bigint[];
BEGIN
    PERFORM pg_advisory_xact_lock(fairpost.rules_lock(p_workspace));
    named := ARRAY(SELECT n.id FROM fairpost.nodes n WHERE n.workspace = p_workspace AND n.level = p_level AND (p_level = 'workspace' OR n.key = p_key)
                   UNION SELECT l FROM fairpost.leaves_of(p_workspace, p_level, p_key) l);
    PERFORM c.id FROM fairpost.node_state c
    WHERE c.id IN (SELECT n.path[1] FROM fairpost.nodes n WHERE n.id = ANY (named)) ORDER BY c.id FOR UPDATE;
    RETURN named;
END $$;

-- Returns the weight of a name among its siblings. This is the weight assigned to the name, multiplied by the weight of its tier unless lanes are
-- used.
CREATE OR REPLACE FUNCTION fairpost.weight_of(p_weight double precision, p_tier smallint, f fairpost.fairness) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(p_weight, 1) * CASE WHEN f.lanes THEN 1 ELSE f.weights[coalesce(p_tier, 1) + 2] / f.weights[3] END
$$;

-- Returns the time at which the last of the stops on this name ends, or null if there are none.
CREATE OR REPLACE FUNCTION fairpost.held_until(r fairpost.sender_rules, p_now timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT nullif(greatest(r.held_until, r.throttled_until, r.closed_until, p_now), p_now)
$$;

-- Returns how a rule stops the mail below its name: `held` (manually, or with its campaign), `throttled`, or `closed` (outside a campaign's window).
-- If several of these apply, returns the one that lasts longest.
CREATE OR REPLACE FUNCTION fairpost.stops_by(r fairpost.sender_rules) RETURNS TABLE (kind text, until timestamptz, reason text, params jsonb)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT s.kind, s.until, s.reason, s.params
    FROM (VALUES (1, 'held', r.held_until, r.hold_reason, r.hold_params), (2, 'throttled', r.throttled_until, r.throttle_reason, r.throttle_params),
                 (3, 'closed', r.closed_until, r.closed_reason, r.closed_params)) s(place, kind, until, reason, params)
    WHERE s.until IS NOT NULL ORDER BY s.until DESC, s.place
$$;

-- Applies a rule to these nodes, together with all other rules about them. The caller has locked their workspaces. The next staging activates nodes that
-- are no longer held.
CREATE OR REPLACE FUNCTION fairpost.apply_rule(named bigint[], r fairpost.sender_rules, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    g record;
    stopped bigint[];
BEGIN
    FOR g IN   -- there are one or two end times: the end of this rule, and a later end of another rule about the same nodes
        SELECT x.until, array_agg(x.id) AS ids
        FROM (SELECT n.id, fairpost.held_until(r, p_now) AS until FROM fairpost.nodes n WHERE n.id = ANY (named) AND n.level NOT IN ('domain', 'stream')
              UNION ALL
              SELECT l.id, l.until FROM fairpost.said_of_leaves(named, p_now) l) x GROUP BY x.until
    LOOP
        IF g.until IS NULL THEN
            UPDATE fairpost.node_state c SET held_until = p_now WHERE c.id = ANY (g.ids) AND c.held_until > p_now;
        ELSE
            stopped := ARRAY(SELECT c.id FROM (SELECT * FROM fairpost.node_state c WHERE c.id = ANY (g.ids) OFFSET 0) c WHERE c.busy > 0 AND c.held_until IS NULL);
            UPDATE fairpost.node_state c SET held_until = g.until WHERE c.id = ANY (g.ids) AND c.held_until IS DISTINCT FROM g.until;
            PERFORM fairpost.deactivate(stopped);
        END IF;
    END LOOP;
    PERFORM fairpost.weigh(named);
END $$;

-- Stops all mail below this name until the given moment ('infinity': until released).
DROP FUNCTION IF EXISTS fairpost.hold(text, fairpost.node_level, text, timestamptz, text, timestamptz, boolean);
DROP FUNCTION IF EXISTS fairpost.hold(text, fairpost.node_level, text, timestamptz, text, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.hold(
    p_workspace text, p_level fairpost.node_level, p_key text, p_until timestamptz, p_reason text, p_params jsonb, p_now timestamptz DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    named bigint[];
    rule fairpost.sender_rules;
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    p_key := CASE p_level WHEN 'user' THEN fairpost.user_named(p_workspace, p_key) ELSE p_key END;
    named := fairpost.lock_named(p_workspace, p_level, p_key);
    INSERT INTO fairpost.sender_rules AS r (workspace, level, key, held_until, hold_reason, hold_params)
    VALUES (p_workspace, p_level, CASE p_level WHEN 'workspace' THEN '' ELSE p_key END, p_until, p_reason, fairpost.shortened(p_params))
    ON CONFLICT (workspace, level, key) DO UPDATE SET held_until = excluded.held_until, hold_reason = excluded.hold_reason, hold_params = excluded.hold_params
    RETURNING * INTO rule;
    PERFORM fairpost.apply_rule(named, rule, t);
    INSERT INTO fairpost.events (at, kind, workspace, subject, detail)
    VALUES (t, 'held', p_workspace, p_level || ' ' || p_key, jsonb_build_object('until', p_until, 'reason', p_reason, 'params', rule.hold_params));
END $$;

-- Ends a hold, but not a throttle.
CREATE OR REPLACE FUNCTION fairpost.release(
    p_workspace text, p_level fairpost.node_level, p_key text, p_now timestamptz DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    named bigint[];
    rule fairpost.sender_rules;
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    p_key := CASE p_level WHEN 'user' THEN fairpost.user_named(p_workspace, p_key) ELSE p_key END;
    named := fairpost.lock_named(p_workspace, p_level, p_key);
    UPDATE fairpost.sender_rules r SET held_until = NULL, hold_reason = NULL, hold_params = NULL
    WHERE r.workspace = p_workspace AND r.level = p_level AND r.key = CASE p_level WHEN 'workspace' THEN '' ELSE p_key END AND r.held_until > t
    RETURNING * INTO rule;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM fairpost.apply_rule(named, rule, t);
    INSERT INTO fairpost.events (at, kind, workspace, subject) VALUES (t, 'released', p_workspace, p_level || ' ' || p_key);
    RETURN true;
END $$;

-- Sets the weight of a name among its siblings, from now on.
CREATE OR REPLACE FUNCTION fairpost.set_weight(p_workspace text, p_level fairpost.node_level, p_key text, p_weight double precision) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    named CONSTANT bigint[] := fairpost.lock_named(p_workspace, p_level, p_key);
BEGIN
    INSERT INTO fairpost.sender_rules AS r (workspace, level, key, weight)
    VALUES (p_workspace, p_level, CASE p_level WHEN 'workspace' THEN '' ELSE p_key END, p_weight)
    ON CONFLICT (workspace, level, key) DO UPDATE SET weight = excluded.weight;
    PERFORM fairpost.weigh(named);
END $$;

-- Sets the tier of a workspace or user, and the end of its throttle (null: no throttle), for queued and future mail. The normal tier is not stored, so a
-- user without a stored tier has the workspace's tier.
DROP FUNCTION IF EXISTS fairpost.set_tier(text, fairpost.node_level, text, smallint, timestamptz, text, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.set_tier(
    p_workspace text, p_level fairpost.node_level, p_key text, p_tier smallint, p_throttled_until timestamptz, p_reason text, p_params jsonb, p_now timestamptz DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    has_lanes boolean;
    named bigint[];
    rule fairpost.sender_rules;
BEGIN
    IF p_level NOT IN ('workspace', 'user') OR p_tier NOT BETWEEN -1 AND 2 THEN
        RAISE EXCEPTION 'tier: must be -1 to 2, for a workspace or a user, got % for a %', p_tier, p_level USING ERRCODE = 'FP002';
    END IF;
    SELECT f.lanes INTO has_lanes FROM fairpost.fairness f FOR SHARE;   -- locked first, so that this and a change to the fairness settings wait for each other
    named := fairpost.lock_named(p_workspace, p_level, p_key);
    INSERT INTO fairpost.sender_rules AS r (workspace, level, key, tier, throttled_until, throttle_reason, throttle_params)
    VALUES (p_workspace, p_level, CASE p_level WHEN 'workspace' THEN '' ELSE p_key END, nullif(p_tier, 1), p_throttled_until, p_reason, p_params)
    ON CONFLICT (workspace, level, key) DO UPDATE SET
        tier = excluded.tier, throttled_until = excluded.throttled_until, throttle_reason = excluded.throttle_reason, throttle_params = excluded.throttle_params
    RETURNING * INTO rule;
    PERFORM fairpost.apply_rule(named, rule, t);
    IF has_lanes THEN
        PERFORM fairpost.change_lanes(p_workspace, CASE p_level WHEN 'user' THEN p_key END, t);
    END IF;
END $$;
