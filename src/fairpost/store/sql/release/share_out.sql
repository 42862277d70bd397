-- Shares out the quota of each branch among its children. Each child starts at its virtual time, and each e-mail advances it by 1/weight. The e-mails
-- with the earliest places are chosen. Children with the same name below two routes (a pool and an account's own route) count as one. With `mine`,
-- only those children are included. With `edge`, none of them advances beyond this virtual time, so no sender gets ahead just because all others
-- happen to be locked.
CREATE OR REPLACE FUNCTION fairpost.share_out(parents fairpost.branch[], depth integer, mine tid[], edge double precision) RETURNS fairpost.branch[]
LANGUAGE plpgsql AS $$
DECLARE
    shared fairpost.branch[];
    is_single boolean;
BEGIN
    IF mine IS NULL THEN   -- most parents have a single active child, which gets the whole quota: nothing has to be ordered
        SELECT bool_and(c.is_only), array_agg(ROW(c.id, c.v, c.flow, c.head_due, c.head_id, c.pinned, depth * 100000 + c.nth, least(c.quota, greatest(c.waiting, 1))::integer,
                                                  c.path || c.id, c.spots || c.spot, c.groups || (depth * 100000 + c.nth)::integer, c.starts || c.vtime)::fairpost.branch)
        INTO is_single, shared
        FROM (SELECT p.quota, p.pinned, p.path, p.spots, p.groups, p.starts, x.*, count(*) OVER (PARTITION BY p.grp) = 1 AS is_only, row_number() OVER (ORDER BY p.grp) AS nth
              FROM unnest(parents) p CROSS JOIN LATERAL (
                  SELECT x.id, x.ctid AS spot, x.flow, x.head_due, x.head_id, x.vtime, x.v, x.waiting
                  FROM fairpost.node_state x
                  WHERE x.parent = p.node AND x.busy > 0 AND x.held_until IS NULL AND x.vtime >= p.v
                  ORDER BY x.vtime LIMIT 2) x) c;
        IF coalesce(is_single, true) THEN
            RETURN shared;
        END IF;
    END IF;
    WITH child AS MATERIALIZED (
        SELECT p.grp AS above, p.quota, p.pinned, p.path, p.spots, p.groups, p.starts, c.*, c.vtime - p.v AS lag,
               min(c.vtime) OVER (PARTITION BY p.node) AS first
        FROM unnest(parents) p CROSS JOIN LATERAL (
            SELECT x.id, x.ctid AS spot, x.key, x.flow, x.head_due, x.head_id, x.weight, x.vtime, x.v, x.waiting
            FROM fairpost.node_state x
            WHERE x.parent = p.node AND x.busy > 0 AND x.held_until IS NULL AND x.vtime >= p.v
            ORDER BY x.vtime LIMIT p.quota) c
        WHERE mine IS NULL
        UNION ALL
        SELECT p.grp, p.quota, p.pinned, p.path, p.spots, p.groups, p.starts, x.id, x.ctid, x.key, x.flow, x.head_due, x.head_id,
               x.weight, x.vtime, x.v, x.waiting, x.vtime - p.v, x.vtime
        FROM unnest(mine) m(spot) CROSS JOIN LATERAL (SELECT x.ctid, x.* FROM fairpost.node_state x WHERE x.ctid = m.spot OFFSET 0) x
        JOIN unnest(parents) p ON p.node = x.parent
        WHERE x.busy > 0 AND x.held_until IS NULL
    ), named AS MATERIALIZED (
        SELECT above, key, quota, max(lag) AS lag, max(weight) AS weight, least(quota, greatest(sum(waiting), 1)) AS most,
               row_number() OVER (ORDER BY above, key) AS nth
        FROM child GROUP BY above, key, quota
    ), bound AS (
        -- No child advances beyond this place: even if all children advanced equally, the quota would be used up by then.
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
