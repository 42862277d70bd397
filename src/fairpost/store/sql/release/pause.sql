-- The global pause. To make pausing possible, each claim looks up one row and each begin takes an additional shared lock, regardless of the number of
-- waiting e-mails.

-- Every begin holds this lock in shared mode from the time it reads the pause until it commits. A pause takes the lock exclusively, so that earlier
-- begins are committed and later ones see the pause.
CREATE OR REPLACE FUNCTION fairpost.pause_lock() RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT 7381526668557575541
$$;

-- A begin takes milliseconds. If one begin hangs for seconds, the pause must still stop all others.
CREATE OR REPLACE FUNCTION fairpost.await_begins() RETURNS void
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(fairpost.pause_lock());
EXCEPTION WHEN lock_not_available THEN
    NULL;
END $$;

-- Returns the current pause, or no row if nothing is paused. Sending is also treated as paused if engines have not confirmed the server for a while.
DROP FUNCTION IF EXISTS fairpost.pause_now(timestamptz);
CREATE OR REPLACE FUNCTION fairpost.pause_now(p_now timestamptz DEFAULT NULL)
RETURNS TABLE (since timestamptz, until timestamptz, reason text, params jsonb, paused_by text, restored boolean)
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp AS $$
    SELECT p.since, nullif(p.until, 'infinity'), p.reason, p.params, p.paused_by, p.restored
    FROM fairpost.pauses p WHERE p.everything AND p.until > coalesce(p_now, clock_timestamp())
    UNION ALL
    SELECT s.asked_at, NULL, 'everything.database_restarted',
        jsonb_build_object('engines', coalesce((SELECT jsonb_agg(e.id ORDER BY e.id) FROM fairpost.engines e WHERE e.asked IS NOT NULL), '["none"]')), 'restore guard', false
    FROM fairpost.server s
    WHERE s.asked = pg_postmaster_start_time() AND s.asked_at < coalesce(p_now, clock_timestamp()) - interval '3 seconds'
    AND NOT EXISTS (SELECT FROM fairpost.pauses p WHERE p.everything AND p.until > coalesce(p_now, clock_timestamp()))
$$;

-- Prevents all begins, for all senders, until the given moment ('infinity': until resumed). Returns whether sending was already paused. `p_reason` is
-- a code if `p_params` is given; otherwise, it is the caller's own text. Pausing again sets a new reason and end, but never replaces the pause of a
-- restored database, which only `resume` can end.
DROP FUNCTION IF EXISTS fairpost.pause(text, text, timestamptz, boolean, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.pause(
    p_reason text, p_by text, p_until timestamptz DEFAULT 'infinity', p_restored boolean DEFAULT false, p_now timestamptz DEFAULT NULL, p_params jsonb DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    t timestamptz;
    before fairpost.pauses;
    code CONSTANT text := CASE WHEN p_params IS NULL THEN 'everything.paused_by_hand' ELSE p_reason END;
    about CONSTANT jsonb := coalesce(p_params, jsonb_build_object('note', left(p_reason, 1000)));
BEGIN
    PERFORM fairpost.await_begins();
    t := coalesce(p_now, clock_timestamp());
    SELECT * INTO before FROM fairpost.pauses p WHERE p.everything AND p.until > t FOR UPDATE;
    IF before.restored THEN
        RETURN true;
    END IF;
    INSERT INTO fairpost.pauses (since, until, reason, params, paused_by, restored)
    VALUES (coalesce(before.since, t), CASE WHEN p_restored THEN 'infinity' ELSE p_until END, code, about, left(p_by, 200), p_restored)
    ON CONFLICT (everything) DO UPDATE SET
        since = excluded.since, until = excluded.until, reason = excluded.reason, params = excluded.params, paused_by = excluded.paused_by, restored = excluded.restored, waits_for = NULL;
    INSERT INTO fairpost.events (at, kind, subject, detail)
    VALUES (t, CASE WHEN p_restored THEN 'restored' ELSE 'paused' END, 'everything',
            jsonb_build_object('until', p_until, 'reason', code, 'params', about, 'by', left(p_by, 200)));
    RETURN before.everything IS NOT NULL;
END $$;

-- Ends the pause and returns it, or no row if there was no pause. After a restore, this accepts the database in its current state.
DROP FUNCTION IF EXISTS fairpost.resume(text, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.resume(p_by text, p_now timestamptz DEFAULT NULL)
RETURNS TABLE (since timestamptz, until timestamptz, reason text, params jsonb, paused_by text, restored boolean)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    ended fairpost.pauses;
BEGIN
    DELETE FROM fairpost.pauses p WHERE p.everything AND p.until > t RETURNING * INTO ended;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF ended.restored THEN
        PERFORM fairpost.begin_new_life(t);
    END IF;
    IF ended.restored OR ended.waits_for IS NOT NULL THEN
        PERFORM fairpost.accept_server(t);
    END IF;
    INSERT INTO fairpost.events (at, kind, subject, detail)
    VALUES (t, 'resumed', 'everything', jsonb_build_object('by', left(p_by, 200), 'restored', ended.restored));
    RETURN QUERY SELECT ended.since, nullif(ended.until, 'infinity'), ended.reason, ended.params, ended.paused_by, ended.restored;
END $$;

-- Holds a name, with the same guarantee as a pause. After the commit, no further sends start below the name. Waits for begins in progress as the last
-- step, because a transaction that holds their lock must not wait for a claim.
CREATE OR REPLACE FUNCTION fairpost.hold_and_wait(
    p_workspace text, p_level fairpost.node_level, p_key text, p_until timestamptz, p_reason text, p_params jsonb, p_now timestamptz DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
BEGIN
    PERFORM fairpost.hold(p_workspace, p_level, p_key, p_until, p_reason, p_params, p_now);
    PERFORM fairpost.await_begins();
END $$;

-- Holds a whole workspace in this way. `p_reason` is the caller's text. Returns whether the workspace was already held.
CREATE OR REPLACE FUNCTION fairpost.pause_workspace(
    p_workspace text, p_reason text, p_until timestamptz DEFAULT 'infinity', p_now timestamptz DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    before CONSTANT boolean := EXISTS (
        SELECT FROM fairpost.sender_rules r WHERE r.workspace = p_workspace AND r.level = 'workspace' AND r.held_until > coalesce(p_now, clock_timestamp()));
BEGIN
    PERFORM fairpost.hold_and_wait(p_workspace, 'workspace', '', p_until, 'hold.by_hand', jsonb_build_object('note', p_reason), p_now);
    RETURN before;
END $$;
