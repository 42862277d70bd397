-- Deletes senders that have had no mail since `p_before`: their leaves, nodes left without children, and homes that were not assigned manually. A
-- sender that returns later is treated as new. Returns the number of leaves deleted. If the number is `p_max`, call again. This is a maintenance
-- task, not part of the hot path.
CREATE OR REPLACE FUNCTION fairpost.prune(p_route text, p_before timestamptz, p_max integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    mine bigint[];
    gone bigint[];
    pruned integer;
    w text[]; u text[];   -- the workspaces and users of the deleted leaves
BEGIN
    PERFORM FROM fairpost.routes r WHERE r.route = p_route FOR UPDATE;   -- so that nothing is staged in the meantime
    gone := ARRAY(
        SELECT n.id FROM fairpost.nodes n JOIN fairpost.node_state c ON c.id = n.id
        WHERE n.route = p_route AND n.level = 'stream' AND c.waiting = 0 AND c.busy = 0 AND c.wake_at IS NULL AND (c.head_due < p_before OR c.head_due = 'infinity')
        AND NOT EXISTS (SELECT FROM fairpost.arrivals a WHERE a.flow = n.flow)
        LIMIT p_max);
    mine := fairpost.lock_free(ARRAY(SELECT DISTINCT n.path[1] FROM fairpost.nodes n WHERE n.id = ANY (gone)));
    gone := ARRAY(SELECT n.id FROM fairpost.nodes n WHERE n.id = ANY (gone) AND n.path[1] = ANY (mine));
    pruned := cardinality(gone);
    SELECT array_agg(x.workspace), array_agg(x.key) INTO w, u FROM fairpost.nodes x WHERE x.id IN (SELECT n.parent FROM fairpost.nodes n WHERE n.id = ANY (gone));
    WHILE cardinality(gone) > 0 LOOP
        DELETE FROM fairpost.node_state c WHERE c.id = ANY (gone);
        WITH left_behind AS (DELETE FROM fairpost.nodes n WHERE n.id = ANY (gone) RETURNING n.parent)
        SELECT array_agg(DISTINCT l.parent) INTO gone FROM left_behind l;
        gone := ARRAY(SELECT n.id FROM fairpost.nodes n WHERE n.id = ANY (gone) AND n.level <> 'route'
                      AND NOT EXISTS (SELECT FROM fairpost.nodes child WHERE child.parent = n.id));
    END LOOP;
    DELETE FROM fairpost.homes h USING unnest(w, u) x(workspace, user_name)
    WHERE h.workspace = x.workspace AND h.user_name = x.user_name AND NOT h.is_given
    AND NOT EXISTS (SELECT FROM fairpost.nodes n WHERE n.workspace = x.workspace AND n.level = 'user' AND n.key = x.user_name);
    RETURN pruned;
END $$;
