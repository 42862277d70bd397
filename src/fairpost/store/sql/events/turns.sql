-- Puts events in commit order. If a transaction commits late, its events are assigned positions only after the commit, and other events are not
-- delayed.
--
-- A turn is a snapshot. Each turn contains the events that were not visible to the previous turn, because their transactions began or ended after
-- that turn. The index outbox_new finds these events. The rows of the events are not changed. Two changes to one e-mail are ordered by their ids,
-- because the second change waited for the first and got its id afterwards.

CREATE OR REPLACE FUNCTION fairpost.turns_lock() RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT 7381526668557575543
$$;

-- Adds a turn and returns the number of events in it, or null if another transaction is adding one. Writes nothing if there are no new events. Call
-- this function in a separate transaction, because other callers wait until it ends. If there are many events, they are split into several turns,
-- each covering a range of ids, so that reading one turn does not read the others.
CREATE OR REPLACE FUNCTION fairpost.take_turn() RETURNS integer
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    turn_max CONSTANT integer := 1000;
    before fairpost.event_turns;
    series_floor bigint;   -- events up to here belong to an older series, so their transaction ids cannot be compared
    snapshot pg_snapshot;
    begins xid8;
    ended xid8[];
    taken integer;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'take_turn: needs the isolation level read committed, got %', current_setting('transaction_isolation') USING ERRCODE = 'FP002';
    ELSIF NOT pg_try_advisory_xact_lock(fairpost.turns_lock()) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO before FROM fairpost.event_turns t ORDER BY t.turn DESC LIMIT 1;   -- a new statement, which runs under the lock
    snapshot := pg_current_snapshot();
    IF pg_snapshot_xmax(snapshot) < pg_snapshot_xmax(before.snap) THEN
        PERFORM fairpost.begin_event_series(true);
        RETURN 0;
    END IF;
    series_floor := coalesce((SELECT t.last_id FROM fairpost.event_turns t WHERE t.turn = before.turn >> 32 << 32), 0);
    begins := coalesce(pg_snapshot_xmax(before.snap), '0');
    ended := ARRAY(
        SELECT x.xid FROM (SELECT pg_snapshot_xip(before.snap) AS xid UNION SELECT before.taken_by WHERE before.n = 0) x
        WHERE x.xid < begins AND pg_visible_in_snapshot(x.xid, snapshot) AND EXISTS (SELECT FROM fairpost.outbox o WHERE o.xid = x.xid AND o.id > series_floor));
    PERFORM set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off';   -- waits for the disk, because events that were read must not be lost
    WITH news AS (
        SELECT o.id, o.at FROM fairpost.outbox o
        WHERE o.xid >= begins AND o.xid < pg_snapshot_xmax(snapshot) AND pg_visible_in_snapshot(o.xid, snapshot) AND o.id > series_floor
        UNION ALL
        SELECT o.id, o.at FROM unnest(ended) x(xid) CROSS JOIN LATERAL (SELECT o.id, o.at FROM fairpost.outbox o WHERE o.xid = x.xid AND o.id > series_floor OFFSET 0) o
    ), turns AS (
        INSERT INTO fairpost.event_turns AS t (turn, since, snap, late, taken_by, n, first_id, last_id, first_at, last_at)
        SELECT coalesce(before.turn, 0) + 1 + e.stretch, begins, snapshot, ended, pg_current_xact_id(), count(*), min(e.id), max(e.id), min(e.at), max(e.at)
        FROM (SELECT e.id, e.at, (row_number() OVER (ORDER BY e.id) - 1) / turn_max AS stretch FROM news e) e GROUP BY e.stretch
        RETURNING t.n
    )
    SELECT coalesce(sum(t.n), 0) INTO taken FROM turns t;
    RETURN taken;
END $$;

-- Begins a new series of turns. Cursors from a period that was lost continue at the start of the new series. `p_is_restored` means that transaction
-- ids have restarted, so those in stored events and snapshots cannot be compared with new ones. Events that have a turn keep it. All other events get
-- a turn in the new series.
CREATE OR REPLACE FUNCTION fairpost.begin_event_series(p_is_restored boolean) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    before fairpost.event_turns;
    series_floor bigint;
    newest bigint;
    now pg_snapshot;
BEGIN
    PERFORM pg_advisory_xact_lock(fairpost.turns_lock());
    SELECT * INTO before FROM fairpost.event_turns t ORDER BY t.turn DESC LIMIT 1;
    IF before.turn IS NULL THEN
        RETURN;
    END IF;
    series_floor := coalesce((SELECT t.last_id FROM fairpost.event_turns t WHERE t.turn = before.turn >> 32 << 32), 0);
    IF p_is_restored THEN
        LOCK TABLE fairpost.outbox IN SHARE MODE;   -- from here on, no transaction writes an event with an id below the new series
        newest := (SELECT max(t.last_id) FROM fairpost.event_turns t);
        now := pg_current_snapshot();
        WITH untold AS (
            DELETE FROM fairpost.outbox o
            WHERE o.id > newest OR o.id > series_floor AND (o.xid >= pg_snapshot_xmax(before.snap) OR o.xid IN (SELECT pg_snapshot_xip(before.snap))) RETURNING o.*
        )
        INSERT INTO fairpost.outbox (at, kind, workspace, email_id, account_id, campaign_id, subject, address, reason, params)
        SELECT u.at, u.kind, u.workspace, u.email_id, u.account_id, u.campaign_id, u.subject, u.address, u.reason, u.params FROM (SELECT * FROM untold u ORDER BY u.id) u;
    END IF;
    INSERT INTO fairpost.event_turns (turn, since, snap, late, taken_by, n, first_id, last_id, first_at, last_at)
    SELECT ((before.turn >> 32) + 1) << 32, pg_snapshot_xmax(s.snap), s.snap, '{}', pg_current_xact_id(), 0, 0, coalesce(newest, series_floor), 'infinity', 'infinity'
    FROM (SELECT coalesce(now, before.snap) AS snap) s;
END $$;
