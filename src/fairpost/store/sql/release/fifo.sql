-- Returns the next e-mails in order of arrival, as the leaves with the oldest e-mails and the number of e-mails to take from each. Skips `blocked`
-- workspaces and locked ones. `skipped` means that a locked workspace was left out.
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
              SELECT c.id, c.head_due, c.head_id FROM fairpost.node_state c CROSS JOIN LATERAL (SELECT * FROM fairpost.nodes n WHERE n.id = c.id OFFSET 0) n
              WHERE c.fifo_root = r.node AND c.busy > 0 AND n.workspace <> ALL (blocked)
              AND NOT EXISTS (SELECT FROM unnest(n.path) w(id) CROSS JOIN LATERAL (SELECT h.held_until FROM fairpost.node_state h WHERE h.id = w.id ORDER BY h.turn DESC LIMIT 1) h WHERE h.held_until IS NOT NULL)
              ORDER BY c.head_due, c.head_id LIMIT p_limit) c
          CROSS JOIN LATERAL (SELECT * FROM fairpost.nodes n WHERE n.id = c.id OFFSET 0) n ORDER BY c.head_due, c.head_id LIMIT p_limit) h;
    ours := fairpost.lock_free(workspaces);
    skipped := NOT coalesce(workspaces <@ ours, true);
    WITH leaf AS MATERIALIZED (   -- checked again now that the row is locked
        SELECT c.id, c.v, c.flow, c.head_due, c.head_id, n.path, n.route, c.spot
        FROM fairpost.nodes n   -- LIMIT 1 prevents the planner from choosing the index of all busy nodes in this lane
        CROSS JOIN LATERAL (SELECT c.*, c.ctid AS spot FROM fairpost.node_state c WHERE c.id = n.id ORDER BY c.turn DESC LIMIT 1) c
        WHERE n.id = ANY (heads) AND n.path[1] = ANY (ours) AND c.busy > 0 AND c.fifo_root IS NOT NULL
        AND NOT EXISTS (SELECT FROM unnest(n.path) w(id) CROSS JOIN LATERAL (SELECT h.held_until FROM fairpost.node_state h WHERE h.id = w.id ORDER BY h.turn DESC LIMIT 1) h WHERE h.held_until IS NOT NULL)
    ), won AS (
        SELECT q.leaf, greatest(1, count(*) FILTER (WHERE q.turn <= p_limit AND q.due_at <= p_now))::integer AS quota
        FROM (SELECT l.id AS leaf, q.due_at, row_number() OVER (ORDER BY q.due_at, q.id) AS turn
              FROM leaf l LEFT JOIN LATERAL (
                  SELECT q.id, q.due_at FROM fairpost.queue q
                  WHERE q.flow = l.flow AND q.waiting AND (q.due_at, q.id) >= (l.head_due, l.head_id)
                  ORDER BY q.due_at, q.id LIMIT p_limit) q ON true) q
        GROUP BY q.leaf
        -- leaves without due e-mails are included, so that they become inactive
        HAVING bool_or(q.turn <= p_limit AND q.due_at <= p_now) OR NOT coalesce(bool_or(q.due_at <= p_now), false)
    )
    SELECT array_agg(ROW(l.id, l.v, l.flow, l.head_due, l.head_id, left(l.route, 1) = '@', 400000 + dense, w.quota, l.path, spots, groups, '{}')::fairpost.branch)
    INTO branches
    FROM won w JOIN leaf l ON l.id = w.leaf
    CROSS JOIN LATERAL (
        SELECT array_agg(c.spot ORDER BY p.depth) AS spots FROM unnest(l.path) WITH ORDINALITY p(id, depth)
        CROSS JOIN LATERAL (SELECT c.ctid AS spot FROM fairpost.node_state c WHERE c.id = p.id ORDER BY c.turn DESC LIMIT 1) c) s
    JOIN (SELECT x.id, x.dense, ARRAY[x.w, 100000 + x.d, 200000 + x.u, 400000 + x.dense]::integer[] AS groups
          FROM (SELECT l.id, dense_rank() OVER (ORDER BY l.id)::integer AS dense, dense_rank() OVER (ORDER BY l.path[1]) AS w,
                       dense_rank() OVER (ORDER BY l.path[2]) AS d, dense_rank() OVER (ORDER BY l.path[3]) AS u FROM leaf l) x) g ON g.id = l.id;
END $$;
