-- Rules: what an operator or a policy says of one name in a workspace, at once for everything that hangs on it and
-- for what is still to come. Each costs the depth of the tree, never the number of e-mails waiting.

CREATE OR REPLACE FUNCTION fairpost.rules_lock(workspace text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended('fairpost rules of ' || workspace, 0)
$$;

-- The nodes that bear a name, with their workspaces locked. Nobody stages a new one meanwhile.
CREATE OR REPLACE FUNCTION fairpost.lock_named(p_workspace text, p_level fairpost.node_level, p_key text) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    named bigint[];
BEGIN
    PERFORM pg_advisory_xact_lock(fairpost.rules_lock(p_workspace));
    named := ARRAY(SELECT n.id FROM fairpost.nodes n WHERE n.workspace = p_workspace AND n.level = p_level
                   AND (p_level = 'workspace' OR n.key = p_key));
    PERFORM c.id FROM fairpost.clocks c
    WHERE c.id IN (SELECT n.path[1] FROM fairpost.nodes n WHERE n.id = ANY (named)) ORDER BY c.id FOR UPDATE;
    RETURN named;
END $$;

-- Nothing below this name goes out until the given moment ('infinity': until released). With `p_at_least`, a hold that lasts
-- longer stays as it is: what a policy imposes does not shorten what a person has.
DROP FUNCTION IF EXISTS fairpost.hold(text, fairpost.node_level, text, timestamptz, text, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.hold(
    p_workspace text, p_level fairpost.node_level, p_key text, p_until timestamptz, p_reason text, p_now timestamptz DEFAULT NULL,
    p_at_least boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    named CONSTANT bigint[] := fairpost.lock_named(p_workspace, p_level, p_key);
    stopped bigint[];
BEGIN
    INSERT INTO fairpost.rules AS r (workspace, level, key, held_until, hold_reason)
    VALUES (p_workspace, p_level, CASE p_level WHEN 'workspace' THEN '' ELSE p_key END, p_until, p_reason)
    ON CONFLICT (workspace, level, key) DO UPDATE SET held_until = excluded.held_until, hold_reason = excluded.hold_reason
    WHERE NOT p_at_least OR coalesce(r.held_until < excluded.held_until, true);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    stopped := ARRAY(SELECT c.id FROM (SELECT * FROM fairpost.clocks c WHERE c.id = ANY (named) OFFSET 0) c WHERE c.busy > 0 AND c.held_until IS NULL);
    UPDATE fairpost.clocks c SET held_until = p_until WHERE c.id = ANY (named);
    PERFORM fairpost.deactivate(stopped);
    INSERT INTO fairpost.events (at, kind, workspace, subject, detail)
    VALUES (t, 'held', p_workspace, p_level || ' ' || p_key, jsonb_build_object('until', p_until, 'reason', p_reason));
END $$;

-- Ends a hold. The next staging wakes what hangs on it.
CREATE OR REPLACE FUNCTION fairpost.release(
    p_workspace text, p_level fairpost.node_level, p_key text, p_now timestamptz DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    named CONSTANT bigint[] := fairpost.lock_named(p_workspace, p_level, p_key);
BEGIN
    UPDATE fairpost.rules r SET held_until = NULL, hold_reason = NULL
    WHERE r.workspace = p_workspace AND r.level = p_level AND r.key = CASE p_level WHEN 'workspace' THEN '' ELSE p_key END AND r.held_until > t;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE fairpost.clocks c SET held_until = least(c.held_until, t) WHERE c.id = ANY (named) AND c.held_until IS NOT NULL;
    INSERT INTO fairpost.events (at, kind, workspace, subject) VALUES (t, 'released', p_workspace, p_level || ' ' || p_key);
    RETURN true;
END $$;

-- The share of a name among its siblings, from now on.
CREATE OR REPLACE FUNCTION fairpost.set_weight(p_workspace text, p_level fairpost.node_level, p_key text, p_weight double precision) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    named CONSTANT bigint[] := fairpost.lock_named(p_workspace, p_level, p_key);
BEGIN
    INSERT INTO fairpost.rules (workspace, level, key, weight)
    VALUES (p_workspace, p_level, CASE p_level WHEN 'workspace' THEN '' ELSE p_key END, p_weight)
    ON CONFLICT (workspace, level, key) DO UPDATE SET weight = excluded.weight;
    UPDATE fairpost.clocks c SET weight = p_weight WHERE c.id = ANY (named);
END $$;
