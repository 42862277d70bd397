-- Reads events in the order of their turns. A cursor is the `turn.id` of the last event read. Until events are dropped, they can be read again from
-- any cursor.

-- Returns the position of a cursor. Raises FP007 if the events after the cursor were dropped, or FP001 if the text is not a cursor.
CREATE OR REPLACE FUNCTION fairpost.cursor_at(p_cursor text, OUT turn bigint, OUT id bigint)
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    dropped CONSTANT fairpost.events_dropped := (SELECT d FROM fairpost.events_dropped d);
BEGIN
    IF p_cursor IS NULL THEN
        turn := dropped.turn;
        id := dropped.id;
        RETURN;
    ELSIF p_cursor !~ '^[0-9]{1,18}\.[0-9]{1,18}$' THEN
        RAISE EXCEPTION 'after: is not a cursor' USING ERRCODE = 'FP001', DETAIL = '{"field": "after", "message": "is not a cursor"}';
    END IF;
    turn := split_part(p_cursor, '.', 1);
    id := split_part(p_cursor, '.', 2);
    IF (turn, id) < (dropped.turn, dropped.id) THEN
        RAISE EXCEPTION 'after: events after this cursor were dropped' USING ERRCODE = 'FP007';
    ELSIF turn > coalesce((SELECT max(t.turn) FROM fairpost.event_turns t), 0) THEN
        RAISE EXCEPTION 'after: is a cursor from another database' USING ERRCODE = 'FP001', DETAIL = '{"field": "after", "message": "is a cursor from another database"}';
    END IF;
END $$;

-- Returns the cursor after the newest event.
CREATE OR REPLACE FUNCTION fairpost.events_end() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
    SELECT coalesce((SELECT t.turn || '.' || t.last_id FROM fairpost.event_turns t ORDER BY t.turn DESC LIMIT 1), '0.0')
$$;

-- Returns a cursor that precedes the newest `p_n` events, or slightly more events.
CREATE OR REPLACE FUNCTION fairpost.events_tail(p_n integer) RETURNS text
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
    SELECT x.turn || '.' || x.id
    FROM (SELECT d.turn, d.id FROM fairpost.events_dropped d
          UNION ALL
          (SELECT t.turn, t.last_id
           FROM (SELECT t.*, sum(t.n) OVER (ORDER BY t.turn DESC) - t.n AS newer FROM (SELECT * FROM fairpost.event_turns t ORDER BY t.turn DESC LIMIT p_n + 1) t) t
           WHERE t.newer >= p_n ORDER BY t.turn DESC LIMIT 1)) x ORDER BY x.turn DESC, x.id DESC LIMIT 1
$$;

-- Returns the positions of the next events after a cursor, from the given turns, for all workspaces or for one. Reads one turn at a time until there
-- are enough events, so a call for one workspace reads only the workspace's own events and one index entry per turn. The conditions on transactions
-- are written so that only the index outbox_by_workspace can be used.
CREATE OR REPLACE FUNCTION fairpost.events_of_turns(p_turn bigint, p_id bigint, p_turns bigint[], p_workspace text, p_kinds text[], p_max integer)
RETURNS TABLE (turn bigint, event fairpost.outbox)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    t fairpost.event_turns;
    got integer;
    missing integer := p_max;
BEGIN
    IF p_workspace IS NULL THEN
        RETURN QUERY
        SELECT t.turn, o.o FROM unnest(array_prepend(p_turn, p_turns)) w(turn) CROSS JOIN LATERAL (SELECT * FROM fairpost.event_turns t WHERE t.turn = w.turn OFFSET 0) t
        CROSS JOIN LATERAL (
            SELECT o FROM fairpost.outbox o
            WHERE o.xid >= t.since AND o.xid < pg_snapshot_xmax(t.snap) AND o.id BETWEEN t.first_id AND t.last_id AND o.at BETWEEN t.first_at AND t.last_at
            AND pg_visible_in_snapshot(o.xid, t.snap)
            UNION ALL
            SELECT o.o FROM unnest(t.late) x(xid) CROSS JOIN LATERAL (
                SELECT o FROM fairpost.outbox o WHERE o.xid = x.xid AND o.id BETWEEN t.first_id AND t.last_id AND o.at BETWEEN t.first_at AND t.last_at OFFSET 0) o) o
        WHERE (t.turn > p_turn OR (o.o).id > p_id) AND (p_kinds IS NULL OR (o.o).kind = ANY (p_kinds))
        ORDER BY t.turn, (o.o).id LIMIT p_max;
        RETURN;
    END IF;
    FOR t IN SELECT t.* FROM unnest(array_prepend(p_turn, p_turns)) w(turn) CROSS JOIN LATERAL (SELECT * FROM fairpost.event_turns t WHERE t.turn = w.turn OFFSET 0) t ORDER BY t.turn LOOP
        RETURN QUERY
        SELECT t.turn, o FROM fairpost.outbox o
        WHERE o.workspace = p_workspace AND o.id BETWEEN greatest(t.first_id, CASE WHEN t.turn = p_turn THEN p_id + 1 END) AND t.last_id
          AND o.at BETWEEN t.first_at AND t.last_at AND (p_kinds IS NULL OR o.kind = ANY (p_kinds))
          AND (greatest(o.xid, t.since) = o.xid AND pg_visible_in_snapshot(o.xid, t.snap) OR array_position(t.late, o.xid) IS NOT NULL)
        ORDER BY o.id LIMIT missing;
        GET DIAGNOSTICS got = ROW_COUNT;
        missing := missing - got;
        EXIT WHEN missing = 0;
    END LOOP;
END $$;

-- Returns the next events after a cursor or, without a cursor, from the oldest event still stored. To continue, pass the cursor of the last row. If
-- there are no more events, that row has no id. `p_workspace` defaults to the session's own workspace or, for the operator, to all workspaces.
-- `p_kinds` restricts the result to these types.
CREATE OR REPLACE FUNCTION fairpost.events_after(
    p_after text DEFAULT NULL, p_max integer DEFAULT 100, p_workspace text DEFAULT NULL, p_kinds text[] DEFAULT NULL
) RETURNS TABLE (
    cursor text, id bigint, at timestamptz, kind text, workspace text, email_id bigint, account text, campaign text, subject text, address text, recipients text[],
    type text, tags jsonb, metadata jsonb, reason text, params jsonb
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    turns_max CONSTANT integer := 1000;
    whose CONSTANT text := coalesce(p_workspace, fairpost.tenant(), CASE WHEN fairpost.spoken_for() IS NOT NULL THEN fairpost.own_workspace(fairpost.spoken_for()) END);
    most CONSTANT integer := least(greatest(p_max, 1), 1000);
    seen_max CONSTANT integer := CASE WHEN whose IS NOT NULL THEN 1000000 WHEN p_kinds IS NULL THEN most ELSE 10000 END;   -- larger for one workspace, because the events of other workspaces are not read
    is_bound CONSTANT boolean := fairpost.is_bound();   -- whether to hide the names of other workspaces' accounts
    place record;
    turns bigint[];
    found integer;
BEGIN
    IF whose IS NOT NULL THEN
        PERFORM fairpost.require_own(whose);
    END IF;
    place := fairpost.cursor_at(p_after);
    turns := ARRAY(
        SELECT t.turn FROM (SELECT t.turn, sum(t.n) OVER (ORDER BY t.turn) - t.n AS seen
                            FROM (SELECT t.turn, t.n FROM fairpost.event_turns t WHERE t.turn > place.turn ORDER BY t.turn LIMIT turns_max) t) t
        WHERE t.seen < seen_max ORDER BY t.turn);
    RETURN QUERY
    SELECT e.turn || '.' || e.id, e.id, e.at, e.kind, e.workspace, e.email_id,
        CASE WHEN NOT is_bound OR starts_with(coalesce(a.name, e.subject), whose || '/') THEN coalesce(a.name, CASE WHEN e.kind LIKE 'account.%' THEN e.subject END) END,
        coalesce(c.name, CASE WHEN e.kind LIKE 'campaign.%' THEN e.subject END), e.subject, e.address, m.recipients,
        l.type, l.tags, l.metadata, e.reason,
        CASE WHEN is_bound THEN fairpost.params_known_to(whose, e.params) ELSE e.params END
    FROM (SELECT e.turn, (e.event).* FROM fairpost.events_of_turns(place.turn, place.id, turns, whose, p_kinds, most) e OFFSET 0) e
    LEFT JOIN LATERAL (SELECT a.name FROM fairpost.accounts a WHERE a.id = e.account_id OFFSET 0) a ON true
    LEFT JOIN LATERAL (SELECT c.name FROM fairpost.campaigns c WHERE c.id = e.campaign_id OFFSET 0) c ON true
    LEFT JOIN LATERAL (SELECT l.type, l.tags, l.metadata FROM fairpost.labels l WHERE l.email_id = e.email_id OFFSET 0) l ON true
    LEFT JOIN LATERAL (
        SELECT ARRAY(SELECT r ->> 'address' FROM jsonb_array_elements(m.recipients) r) AS recipients
        FROM (SELECT m.recipients FROM fairpost.emails m WHERE m.id = e.email_id UNION ALL SELECT q.recipients FROM fairpost.queue q WHERE q.id = e.email_id LIMIT 1) m OFFSET 0) m ON true
    ORDER BY e.turn, e.id;
    GET DIAGNOSTICS found = ROW_COUNT;
    IF found < most AND turns <> '{}' THEN
        RETURN QUERY SELECT t.turn || '.' || t.last_id, NULL::bigint, NULL::timestamptz, NULL, NULL, NULL::bigint, NULL, NULL, NULL, NULL, NULL::text[], NULL, NULL::jsonb, NULL::jsonb, NULL, NULL::jsonb
        FROM fairpost.event_turns t WHERE t.turn = turns[cardinality(turns)];
    END IF;
END $$;
