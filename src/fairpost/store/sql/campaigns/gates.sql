-- Decides when a campaign's mail may be sent: only within the sending window, and only until the quota for the local day is used up. At other times,
-- the stream is closed in the tree until the time stored there, so that engines do not claim mail that they may not send.

-- Returns the quota for the local day at the given time, if the workspace has a quota. Reads the newest version of its row; see migration 0033.
CREATE OR REPLACE FUNCTION fairpost.quota_at(p_workspace text, p_now timestamptz) RETURNS fairpost.quotas
LANGUAGE sql STABLE AS $$
    SELECT q FROM fairpost.quotas q WHERE q.workspace = p_workspace AND q.starts_at <= p_now AND q.ends_at > p_now ORDER BY q.starts_at DESC, q.turn DESC LIMIT 1
$$;

-- Charges `p_n` e-mails to the quota for the day (or refunds them if `p_n` is negative). Returns false if the day has no quota, or if its quota is
-- used up. Locks the row first, then reads it.
CREATE OR REPLACE FUNCTION fairpost.use_quota(p_workspace text, p_at timestamptz, p_n integer) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    today fairpost.quotas;
BEGIN
    FOR look IN 1 .. 2 LOOP   -- if this waited for a new calendar that replaced the row, the second look finds the new one
        SELECT * INTO today FROM fairpost.quotas q WHERE q.workspace = p_workspace AND q.starts_at <= p_at AND q.ends_at > p_at
        ORDER BY q.starts_at DESC, q.turn DESC LIMIT 1 FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
    END LOOP;
    IF today.workspace IS NULL OR p_n > 0 AND today.used >= today.allowed THEN
        RETURN false;
    END IF;
    UPDATE fairpost.quotas q SET used = greatest(0, q.used + p_n), turn = q.turn + 1
    WHERE q.workspace = p_workspace AND q.starts_at = today.starts_at AND q.turn = today.turn;
    RETURN true;
END $$;

-- Returns the earliest time, at or after the given time, at which the window is open, or null if none is known. Without hours, the window is always
-- open.
CREATE OR REPLACE FUNCTION fairpost.next_open(hours tstzmultirange, moment timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN coalesce(hours @> moment, true) THEN moment ELSE (SELECT min(lower(r)) FROM unnest(hours) r WHERE lower(r) > moment) END
$$;

-- Returns the time before which mail in this stream may not be sent, and the reason as a code with parameters. Returns nulls if the mail may be sent
-- now.
DROP FUNCTION IF EXISTS fairpost.gate_of(text, text, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.gate_of(p_workspace text, p_stream text, p_now timestamptz, OUT until timestamptz, OUT why text, OUT params jsonb)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    hours tstzmultirange;
    known timestamptz;
    has_quota boolean;
    today fairpost.quotas;
    t timestamptz := p_now;
BEGIN
    SELECT s.open, coalesce(w.known_until, '-infinity'), w.daily_max IS NOT NULL INTO hours, known, has_quota
    FROM fairpost.campaign_streams s LEFT JOIN fairpost.schedules w ON w.workspace = s.workspace
    WHERE s.workspace = p_workspace AND s.stream = p_stream;
    IF has_quota THEN
        today := fairpost.quota_at(p_workspace, p_now);
        IF today.allowed IS NULL THEN
            until := p_now + interval '1 minute';   -- an engine computes the missing days in the meantime
            why := 'schedule.quota_unknown';
            params := '{}';
            RETURN;
        ELSIF today.used >= today.allowed THEN
            t := today.ends_at;
            why := 'schedule.quota_used_up';
            params := jsonb_build_object('used', today.used, 'allowed', today.allowed);
        END IF;
    END IF;
    IF NOT hours @> t THEN
        t := coalesce(fairpost.next_open(hours, t), greatest(known, p_now + interval '1 minute'));
        why := coalesce(why, 'schedule.window_closed');
        params := coalesce(params, '{}');
    END IF;
    until := nullif(t, p_now);
END $$;

-- Closes or opens a workspace's streams (or one of them), as currently required.
CREATE OR REPLACE FUNCTION fairpost.set_gates(p_workspace text, p_stream text DEFAULT NULL, p_now timestamptz DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    t timestamptz;
    g record;
    rule fairpost.sender_rules;
    named bigint[];
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    PERFORM pg_advisory_xact_lock(fairpost.rules_lock(p_workspace));
    t := coalesce(p_now, clock_timestamp());
    FOR g IN
        SELECT s.stream, x.until, x.why, x.params
        FROM fairpost.campaign_streams s JOIN fairpost.campaigns c ON c.id = s.campaign_id, fairpost.gate_of(p_workspace, s.stream, t) x
        WHERE s.workspace = p_workspace AND (p_stream IS NULL OR s.stream = p_stream) AND (c.state IN ('scheduled', 'running', 'paused') OR c.state = 'completed' AND c.reason IS NOT NULL)
        AND NOT EXISTS (SELECT FROM fairpost.sender_rules r WHERE r.workspace = p_workspace AND r.level = 'stream' AND r.key = s.stream
                        AND (nullif(greatest(r.closed_until, t), t), CASE WHEN r.closed_until > t THEN r.closed_reason END, CASE WHEN r.closed_until > t THEN r.closed_params END) IS NOT DISTINCT FROM (x.until, x.why, x.params))
        AND (x.until IS NOT NULL OR EXISTS (SELECT FROM fairpost.sender_rules r WHERE r.workspace = p_workspace AND r.level = 'stream' AND r.key = s.stream AND r.closed_until > t))
        ORDER BY s.stream
    LOOP
        named := fairpost.lock_named(p_workspace, 'stream', g.stream);
        INSERT INTO fairpost.sender_rules AS r (workspace, level, key, closed_until, closed_reason, closed_params)
        VALUES (p_workspace, 'stream', g.stream, g.until, g.why, g.params)
        ON CONFLICT (workspace, level, key) DO UPDATE SET closed_until = excluded.closed_until, closed_reason = excluded.closed_reason, closed_params = excluded.closed_params
        RETURNING * INTO rule;
        PERFORM fairpost.apply_rule(named, rule, t);
    END LOOP;
END $$;

-- Returns workspaces that have a stream to open (because part of a quota was refunded) or to close. The cost depends on the number of live streams.
-- The caller then opens or closes each stream in a separate commit, so that no transaction holds many locks.
CREATE OR REPLACE FUNCTION fairpost.wrong_gates(p_now timestamptz DEFAULT NULL) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    RETURN QUERY
    SELECT DISTINCT s.workspace
    FROM fairpost.campaigns c JOIN fairpost.campaign_streams s ON s.campaign_id = c.id
    LEFT JOIN LATERAL (SELECT r.closed_until FROM fairpost.sender_rules r WHERE r.workspace = s.workspace AND r.level = 'stream' AND r.key = s.stream OFFSET 0) r ON true,
    fairpost.gate_of(s.workspace, s.stream, t) x
    WHERE c.state IN ('scheduled', 'running', 'paused')
    AND nullif(greatest(r.closed_until, t), t) IS DISTINCT FROM x.until;
END $$;

-- The part of `begin_send` that concerns the campaign. The caller has locked the e-mail's row and the pause. If the e-mail may be sent now, charges
-- it to the quota and returns null. Otherwise, returns one of these:
--   held     return the e-mail
--   closed   the window is closed or the quota is used up: close the stream
--   parked   the prospect is paused, and the e-mail waits until the pause ends
--   gone     the prospect no longer exists
CREATE OR REPLACE FUNCTION fairpost.admit_to_campaign(email fairpost.queue, p_now timestamptz) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    campaign record;
    stopped jsonb;   -- why sending to this prospect was stopped
    is_paused boolean;
BEGIN
    SELECT c.state, s.open, w.daily_max INTO campaign
    FROM fairpost.campaigns c JOIN fairpost.campaign_streams s ON s.workspace = email.workspace AND s.stream = email.stream
    LEFT JOIN fairpost.schedules w ON w.workspace = c.workspace
    WHERE c.id = email.campaign_id;
    IF campaign.state NOT IN ('scheduled', 'running', 'completed') THEN   -- leftover e-mails of a completed campaign were held and have been released
        RETURN 'held';
    ELSIF NOT campaign.open @> p_now THEN
        RETURN 'closed';
    END IF;
    SELECT p.is_paused INTO is_paused FROM fairpost.prospects p WHERE p.id = email.prospect_id;
    IF NOT FOUND OR fairpost.is_stopped(email.prospect_id, email.campaign_id) THEN
        stopped := (SELECT s.params FROM fairpost.opt_outs s WHERE s.prospect_id = email.prospect_id AND s.campaign_id IN (email.campaign_id, 0) LIMIT 1);
        PERFORM fairpost.finish(email.id, 'cancelled', CASE WHEN stopped IS NULL THEN 'email.prospect_removed' ELSE 'email.prospect_stopped' END, p_now,
            p_params => coalesce(stopped, '{}'));
        RETURN 'gone';
    ELSIF is_paused AND fairpost.is_still_paused(email.prospect_id) THEN
        UPDATE fairpost.queue q SET state = 'waiting', waiting = true, claimed_at = NULL, due_at = 'infinity',
            parked_due = CASE WHEN q.due_at < 'infinity' THEN q.due_at ELSE coalesce(q.parked_due, p_now) END   -- the e-mail was parked and claimed at the same time
        WHERE q.id = email.id;
        PERFORM fairpost.note(ARRAY[email.id], 1);
        RETURN 'parked';
    END IF;
    IF campaign.daily_max IS NOT NULL AND NOT fairpost.use_quota(email.workspace, p_now, 1) THEN
        RETURN 'closed';
    END IF;
    RETURN NULL;
END $$;

-- If an e-mail was not sent, refunds it to the quota for the day on which its sending started. Holds the lock of begins until the commit, so that a
-- calendar with a new quota does not count the e-mail as begun without getting the refund.
CREATE OR REPLACE FUNCTION fairpost.refund_quota(email fairpost.queue) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    done text;
BEGIN
    done := pg_advisory_xact_lock_shared(fairpost.pause_lock());
    done := fairpost.use_quota(email.workspace, email.begun_at, -1);
END $$;

-- Stores a workspace's hours and quotas for the coming weeks, computed from revision `p_revision` of the schedule. `p_open` is {timezone:
-- multirange}, with the workspace's own time zone under ''; null means no window. `p_days` is [{day, starts_at, ends_at, allowed}]; null means no
-- quota. Returns false, changing nothing, if the schedule has changed, or if a stream has a time zone that was not computed. Unchanged days keep
-- their count. For changed days, the e-mails already sent are recounted.
CREATE OR REPLACE FUNCTION fairpost.materialize_calendar(
    p_workspace text, p_revision bigint, p_open jsonb, p_days jsonb, p_known_until timestamptz, p_now timestamptz DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    t timestamptz;
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    PERFORM pg_advisory_xact_lock(fairpost.rules_lock(p_workspace));   -- locked before the days, because its holder may be waiting for transactions that charge them
    PERFORM FROM fairpost.schedules w WHERE w.workspace = p_workspace AND w.revision = p_revision FOR UPDATE;
    IF NOT FOUND OR EXISTS (SELECT FROM fairpost.campaign_streams s WHERE s.workspace = p_workspace AND NOT p_open ? coalesce(s.timezone, '')) THEN
        RETURN false;
    END IF;
    IF p_days IS NOT NULL AND (fairpost.quota_at(p_workspace, coalesce(p_now, clock_timestamp()))).allowed IS NULL THEN
        PERFORM fairpost.await_begins();   -- by now, sends that started before there was a quota have ended and are counted
    END IF;
    PERFORM FROM fairpost.quotas q WHERE q.workspace = p_workspace ORDER BY q.starts_at FOR UPDATE;   -- by now, transactions that charge the quota have ended
    t := coalesce(p_now, clock_timestamp());
    DELETE FROM fairpost.quotas q WHERE q.workspace = p_workspace AND q.ends_at > t AND NOT EXISTS (
        SELECT FROM jsonb_to_recordset(p_days) d(starts_at timestamptz, ends_at timestamptz) WHERE d.starts_at = q.starts_at AND d.ends_at = q.ends_at);
    WITH days AS MATERIALIZED (
        SELECT d.*, CASE WHEN d.starts_at <= t THEN fairpost.sent_between(p_workspace, d.starts_at, d.ends_at) ELSE 0 END AS used
        FROM jsonb_to_recordset(p_days) d(day date, starts_at timestamptz, ends_at timestamptz, allowed integer)
    ), known AS (
        UPDATE fairpost.quotas q SET allowed = d.allowed, day = d.day, ends_at = d.ends_at, used = CASE WHEN q.ends_at = d.ends_at THEN q.used ELSE d.used END, turn = q.turn + 1
        FROM days d WHERE q.workspace = p_workspace AND q.starts_at = d.starts_at RETURNING q.starts_at
    )
    INSERT INTO fairpost.quotas (workspace, starts_at, ends_at, day, allowed, used)
    SELECT p_workspace, d.starts_at, d.ends_at, d.day, d.allowed, d.used FROM days d WHERE d.starts_at NOT IN (SELECT k.starts_at FROM known k);
    DELETE FROM fairpost.quotas q WHERE q.workspace = p_workspace AND q.ends_at < t - interval '400 days';
    UPDATE fairpost.campaign_streams s SET open = (p_open ->> coalesce(s.timezone, ''))::tstzmultirange WHERE s.workspace = p_workspace;
    UPDATE fairpost.schedules w SET known_until = p_known_until WHERE w.workspace = p_workspace;
    PERFORM fairpost.set_gates(p_workspace, NULL, p_now);
    RETURN true;
END $$;

-- Counts the campaign e-mails in history that were sent, or may have been sent.
CREATE OR REPLACE FUNCTION fairpost.sent_between(p_workspace text, p_from timestamptz, p_to timestamptz) RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT ((SELECT count(*) FROM fairpost.emails e JOIN fairpost.attempts a ON a.email_id = e.id AND a.n = e.attempts
             WHERE e.workspace = p_workspace AND e.campaign_id IS NOT NULL AND e.state = 'sent' AND e.finished_at >= p_from
             AND a.begun_at >= p_from AND a.begun_at < p_to)
          + (SELECT count(*) FROM fairpost.queue q WHERE q.workspace = p_workspace AND q.campaign_id IS NOT NULL AND NOT q.waiting
             AND q.state IN ('sending', 'in_doubt') AND q.begun_at >= p_from AND q.begun_at < p_to))::integer
$$;
