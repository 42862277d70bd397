-- The two moves of the flow tree. A node is *active* when it has something to serve (busy > 0) and is not held;
-- its parent's `busy` counts the active children. Callers hold the locks of the workspaces concerned.

-- These nodes have just become active: each starts at its parent's present virtual time (a sleeper gains no
-- credit), and parents that had nothing to serve become active in turn. A thousandth of an e-mail at most keeps those
-- that start together apart: so the place where scans begin moves on with every one served, not once a round.
CREATE OR REPLACE FUNCTION fairpost.activate(ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    depth integer;
    now_at bigint[];
    above bigint[];   -- named in each statement: a join alone may read all nodes, whatever the planner believes of them
BEGIN
    FOR depth IN REVERSE 4..1 LOOP
        SELECT array_agg(n.id), array_agg(DISTINCT n.parent) INTO now_at, above   -- OFFSET 0: what is made distinct outside may not choose the index inside
        FROM (SELECT n.id, n.parent FROM fairpost.nodes n WHERE n.id = ANY (ids) AND cardinality(n.path) = depth OFFSET 0) n;
        CONTINUE WHEN now_at IS NULL;
        UPDATE fairpost.clocks c SET vtime = p.v + (c.id % 1000000) * 1e-9
        FROM fairpost.clocks p WHERE c.id = ANY (now_at) AND p.id = c.parent AND p.id = ANY (above) AND c.vtime < p.v + (c.id % 1000000) * 1e-9;
        EXIT WHEN depth = 1;
        WITH woken AS (
            UPDATE fairpost.clocks p SET busy = p.busy + child.n
            FROM (SELECT c.parent, count(*)::integer AS n FROM fairpost.clocks c WHERE c.id = ANY (now_at) GROUP BY c.parent) child
            WHERE p.id = child.parent AND p.id = ANY (above)
            RETURNING p.id, p.busy = child.n AND p.held_until IS NULL AS first
        )
        SELECT ids || coalesce(array_agg(w.id), '{}') INTO ids FROM woken w WHERE w.first;
    END LOOP;
END $$;

-- These nodes have just ceased to be active; parents left with nothing to serve cease in turn.
CREATE OR REPLACE FUNCTION fairpost.deactivate(ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    depth integer;
    now_at bigint[];
    above bigint[];   -- named in each statement: a join alone may read all nodes, whatever the planner believes of them
BEGIN
    FOR depth IN REVERSE 4..2 LOOP
        SELECT array_agg(n.id), array_agg(DISTINCT n.parent) INTO now_at, above   -- OFFSET 0: what is made distinct outside may not choose the index inside
        FROM (SELECT n.id, n.parent FROM fairpost.nodes n WHERE n.id = ANY (ids) AND cardinality(n.path) = depth OFFSET 0) n;
        CONTINUE WHEN now_at IS NULL;
        WITH left_over AS (
            UPDATE fairpost.clocks p SET busy = p.busy - child.n
            FROM (SELECT c.parent, count(*)::integer AS n FROM fairpost.clocks c WHERE c.id = ANY (now_at) GROUP BY c.parent) child
            WHERE p.id = child.parent AND p.id = ANY (above)
            RETURNING p.id, p.busy = 0 AND p.held_until IS NULL AS last
        )
        SELECT ids || coalesce(array_agg(l.id), '{}') INTO ids FROM left_over l WHERE l.last;
    END LOOP;
END $$;
