-- Returns the e-mails that must not be sent, because they have expired or all their recipients are suppressed.
CREATE OR REPLACE FUNCTION fairpost.unsendable(ids bigint[], p_now timestamptz) RETURNS bigint[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT q.id FROM fairpost.queue q WHERE q.id = ANY (ids) AND (q.expires_at <= p_now OR NOT EXISTS (
            SELECT FROM unnest(q.addresses) a WHERE (
                SELECT true FROM fairpost.suppressions s WHERE s.address = fairpost.normalize_address(a) AND s.workspace IN (q.workspace, '*')
                AND fairpost.stops_mail(s.kind, s.also_urgent, q.class) LIMIT 1) IS NULL
            AND (
                SELECT true FROM fairpost.suppression_hashes h
                WHERE h.address_hash = (SELECT sha256(s.salt || convert_to(fairpost.normalize_address(a), 'UTF8')) FROM fairpost.salts s WHERE s.single) AND h.workspace IN (q.workspace, '*')
                AND fairpost.stops_mail(h.kind, h.also_urgent, q.class) LIMIT 1) IS NULL)));
END $$;

-- Takes the first e-mails of each leaf, up to its quota, and marks them as claimed. E-mails that must not be sent are settled instead and are not
-- charged to their sender. Charges the nodes from the workspace down to the leaf, and deactivates leaves without due e-mails. `moved` means that an
-- e-mail was taken or a leaf was deactivated. `for_account` and `for_epoch` are the leases that claim the first e-mail, the second, and so on, from
-- the place after `p_used`.
DROP FUNCTION IF EXISTS fairpost.take(fairpost.branch[], bigint, bigint, timestamptz, boolean);
CREATE OR REPLACE FUNCTION fairpost.take(
    branches fairpost.branch[], for_account bigint[], for_epoch bigint[], p_used integer, p_now timestamptz, p_fifo boolean, OUT ids bigint[], OUT moved boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    near_leaf bigint[]; near_id bigint[]; near_due timestamptz[]; near_nth bigint[];   -- from each leaf, one more than its quota
    locked bigint[];
    barred bigint[];
    taken bigint[];
    idle bigint[];
BEGIN
    SELECT array_agg(q.leaf), array_agg(q.id), array_agg(q.due_at), array_agg(q.nth) INTO near_leaf, near_id, near_due, near_nth
    FROM (SELECT b.node AS leaf, q.id, q.due_at, row_number() OVER (PARTITION BY b.node ORDER BY q.due_at, q.id) AS nth
          FROM unnest(branches) b CROSS JOIN LATERAL (
              SELECT q.id, q.due_at FROM fairpost.queue q
              WHERE q.flow = b.flow AND q.waiting AND (q.due_at, q.id) >= (b.head_due, b.head_id)
              ORDER BY q.due_at, q.id LIMIT b.quota + 1) q) q;
    locked := ARRAY(
        SELECT q.id FROM unnest(near_leaf, near_id, near_due, near_nth) c(leaf, id, due, nth) JOIN unnest(branches) b ON b.node = c.leaf
        CROSS JOIN LATERAL (SELECT q.id, q.waiting, q.due_at FROM fairpost.queue q WHERE q.id = c.id FOR UPDATE SKIP LOCKED) q
        WHERE c.due <= p_now AND c.nth <= b.quota AND q.waiting AND q.due_at <= p_now);   -- its prospect may have been paused in the meantime
    barred := fairpost.unsendable(locked, p_now);

    WITH candidate AS (
        SELECT c.*, b.grp, b.quota, b.pinned, c.id = ANY (locked) AS mine, c.id = ANY (barred) AS never
        FROM unnest(near_leaf, near_id, near_due, near_nth) c(leaf, id, due, nth) JOIN unnest(branches) b ON b.node = c.leaf
    ), judged AS (
        -- Pinned mail is taken first. Together, the leaves of one name take no more than the quota for that name.
        SELECT c.*, c.mine AND (c.never OR sum((c.mine AND NOT c.never)::integer)
            OVER (PARTITION BY c.grp ORDER BY c.pinned DESC, c.leaf, c.nth) <= c.quota) AS taken
        FROM candidate c
    ), stock AS (
        SELECT b.node, b.path, b.spots, b.groups, b.starts, coalesce(j.n, 0) AS n, coalesce(j.live, 0) AS live, j.next_due, j.next_id, j.last_due, j.last_id
        FROM unnest(branches) b LEFT JOIN (
            SELECT j.leaf, count(*) FILTER (WHERE j.taken) AS n, count(*) FILTER (WHERE j.taken AND NOT j.never) AS live,
                   (array_agg(j.due ORDER BY j.nth) FILTER (WHERE NOT j.taken))[1] AS next_due,
                   (array_agg(j.id ORDER BY j.nth) FILTER (WHERE NOT j.taken))[1] AS next_id,
                   max(j.due) AS last_due, (array_agg(j.id ORDER BY j.nth DESC))[1] AS last_id
            FROM judged j GROUP BY j.leaf) j ON j.leaf = b.node   -- grouped by the leaf alone, because otherwise its arrays would also be compared
    ), charge AS (
        SELECT g.grp, sum(s.live) AS live FROM stock s, unnest(s.groups) AS g(grp) GROUP BY g.grp
    ), step AS (
        SELECT w.node, w.spot, max(g.live) AS live, sum(s.n) AS n, min(w.next_start) AS v
        FROM stock s, unnest(s.path, s.spots, s.groups, s.starts[2:4]) AS w(node, spot, grp, next_start), charge g
        WHERE g.grp = w.grp GROUP BY w.node, w.spot
    ), moved AS (
        UPDATE fairpost.node_state c SET
            vtime = c.vtime + CASE WHEN p_fifo THEN 0 ELSE t.live / c.weight END,
            waiting = c.waiting - t.n,
            v = greatest(c.v, t.v),
            turn = c.turn + 1,
            head_due = CASE WHEN s.node IS NULL OR s.last_id IS NULL THEN c.head_due ELSE coalesce(s.next_due, s.last_due) END,
            head_id = CASE WHEN s.node IS NULL OR s.last_id IS NULL THEN c.head_id ELSE coalesce(s.next_id, s.last_id + 1) END,
            busy = CASE WHEN s.node IS NOT NULL AND coalesce(s.next_due > p_now, true) THEN 0 ELSE c.busy END,
            wake_at = CASE WHEN s.next_due > p_now AND s.next_due < 'infinity' THEN s.next_due END
        FROM step t LEFT JOIN stock s ON s.node = t.node
        WHERE c.ctid = t.spot   -- by location, because a lookup by id would read every version that vacuum could not remove
    )
    SELECT ARRAY(SELECT j.id FROM judged j WHERE j.taken ORDER BY CASE WHEN p_fifo THEN j.due END, CASE WHEN p_fifo THEN j.id END),
           ARRAY(SELECT s.node FROM stock s WHERE coalesce(s.next_due > p_now, true))
    INTO taken, idle;

    PERFORM fairpost.deactivate(idle);
    PERFORM fairpost.finish_unsendable(q.id, p_now) FROM unnest(barred) q(id) WHERE q.id = ANY (taken);
    ids := ARRAY(SELECT t.id FROM unnest(taken) WITH ORDINALITY t(id, place) WHERE t.id <> ALL (barred) ORDER BY t.place);
    UPDATE fairpost.queue q SET state = 'claimed', waiting = false, account_id = for_account[p_used + t.place], epoch = for_epoch[p_used + t.place],
        claimed_at = p_now, begun_at = NULL
    FROM unnest(ids) WITH ORDINALITY t(id, place) WHERE q.id = t.id AND q.id = ANY (ids) AND q.state = 'waiting';
    moved := cardinality(taken) > 0 OR cardinality(idle) > 0;
END $$;
