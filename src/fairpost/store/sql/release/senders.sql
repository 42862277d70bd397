-- Sender records and sender activity.

-- Registers a workspace (if no user is named) or a user, or changes the existing record. Runs in the caller's own transaction, such as the one in
-- which a user signs up or pays. Within a second, an engine decides the tier and moves the user's mail to the given home, if any. If no home is
-- given, the home does not change.
DROP FUNCTION IF EXISTS fairpost.set_sender(text, text, text, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.set_sender(p_workspace text, p_user text, p_plan text, p_since timestamptz, p_home text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    IF p_user IS NULL AND fairpost.is_bound() THEN
        RAISE EXCEPTION 'only the operator can change a workspace' USING ERRCODE = 'FP004';
    END IF;
    IF p_workspace IS NULL OR p_workspace = '' OR length(p_workspace) > 200 OR length(p_user) > 200 OR length(p_plan) > 100 THEN
        RAISE EXCEPTION 'sender: workspace and user names must be 1 to 200 characters long, and plan names at most 100' USING ERRCODE = 'FP001';
    END IF;
    IF p_since NOT BETWEEN '1970-01-01 00:00:00+00' AND '2200-01-01 00:00:00+00' THEN
        RAISE EXCEPTION 'since: must be between the years 1970 and 2200, got %', p_since USING ERRCODE = 'FP001';
    END IF;
    IF p_home IS NOT NULL AND (coalesce(p_user, '') = '' OR strpos(p_home, '@') > 0 OR fairpost.parse_address(jsonb_build_object('address', 'x@' || p_home)) IS NULL) THEN
        RAISE EXCEPTION 'home: must be a domain, and only for a user, got %', left(p_home, 100) USING ERRCODE = 'FP001';
    END IF;
    INSERT INTO fairpost.senders AS s (workspace, level, name, plan, since, look_at)
    VALUES (p_workspace, CASE WHEN p_user IS NULL THEN 'workspace' ELSE 'user' END::fairpost.node_level, fairpost.normalize_user(coalesce(p_user, '')), p_plan, p_since, '-infinity')
    ON CONFLICT (workspace, level, name) DO UPDATE SET plan = excluded.plan, since = excluded.since, look_at = '-infinity', revision = s.revision + 1;
    INSERT INTO fairpost.homes AS h (workspace, user_name, is_given, domain, is_proven, is_settled)
    SELECT p_workspace, fairpost.normalize_user(p_user), true, lower(p_home), true, false WHERE p_home IS NOT NULL
    ON CONFLICT (workspace, user_name, is_given) DO UPDATE SET domain = excluded.domain, is_settled = false WHERE h.domain <> excluded.domain;
END $$;

-- Writes the tier, throttle and score that were decided for revision `p_revision`, and applies them to queued mail. `p_offended_at` is the time of the
-- event that caused a new throttle. Returns false, writing nothing, if the sender was changed in the meantime. Raises an error if it has to wait for
-- a lock for more than a second. A throttle that is only observed is stored but not applied.
DROP FUNCTION IF EXISTS fairpost.decide(text, fairpost.node_level, text, bigint, smallint, timestamptz, timestamptz, timestamptz, boolean, boolean, timestamptz,
    smallint, double precision, text[], timestamptz, boolean, timestamptz);
DROP FUNCTION IF EXISTS fairpost.decide(text, fairpost.node_level, text, bigint, smallint, timestamptz, timestamptz, timestamptz, boolean, boolean, timestamptz,
    smallint, double precision, text[], timestamptz, boolean, timestamptz, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.decide(
    p_workspace text, p_level fairpost.node_level, p_name text, p_revision bigint, p_tier smallint, p_look_at timestamptz,
    p_since timestamptz, p_until timestamptz, p_enforced boolean, p_by_hand boolean, p_immune_until timestamptz,
    p_score smallint, p_confidence double precision, p_reasons jsonb, p_scored_at timestamptz, p_new boolean, p_now timestamptz DEFAULT NULL,
    p_offended_at timestamptz DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET lock_timeout = '1s' AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    stop_until CONSTANT timestamptz := CASE WHEN p_enforced THEN p_until END;
    why CONSTANT jsonb := CASE WHEN p_enforced AND p_until IS NOT NULL THEN
        CASE jsonb_array_length(p_reasons) WHEN 1 THEN p_reasons -> 0 ELSE jsonb_build_object('code', 'throttle.scored', 'params', jsonb_build_object('reasons', p_reasons)) END END;
BEGIN
    -- The sender is locked first, before any lock that others need, because an application may keep the sender locked for a long time.
    INSERT INTO fairpost.senders (workspace, level, name) SELECT p_workspace, p_level, p_name WHERE p_revision = 0 ON CONFLICT DO NOTHING;
    PERFORM FROM fairpost.senders s WHERE s.workspace = p_workspace AND s.level = p_level AND s.name = p_name FOR UPDATE;
    PERFORM FROM fairpost.fairness f FOR SHARE;   -- locked before the rules, as in set_tier
    PERFORM pg_advisory_xact_lock(fairpost.rules_lock(p_workspace));
    UPDATE fairpost.senders s SET
        tier = p_tier, look_at = p_look_at, throttled_since = p_since, throttled_until = p_until, is_enforced = p_enforced, is_by_hand = p_by_hand,
        immune_until = p_immune_until, score = p_score, confidence = p_confidence, reasons = ARRAY(SELECT fairpost.in_one(e ->> 'code', e -> 'params') FROM jsonb_array_elements(p_reasons) e), scored_at = p_scored_at,
        untold = s.untold AND p_since IS NOT NULL OR p_new, revision = s.revision + 1
    WHERE s.workspace = p_workspace AND s.level = p_level AND s.name = p_name AND s.revision = p_revision;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_level = 'user' AND (p_new OR p_since IS NULL OR p_by_hand) THEN
        DELETE FROM fairpost.offences o WHERE o.workspace = p_workspace AND o.user_name = p_name;
        INSERT INTO fairpost.offences (workspace, user_name, at) SELECT p_workspace, p_name, p_offended_at WHERE p_new AND p_offended_at IS NOT NULL;
    END IF;
    IF NOT EXISTS (
        SELECT FROM fairpost.sender_rules r WHERE r.workspace = p_workspace AND r.level = p_level AND r.key = p_name
        AND (r.tier, r.throttled_until, r.throttle_reason, r.throttle_params) IS NOT DISTINCT FROM (nullif(p_tier, 1), stop_until, why ->> 'code', why -> 'params')
    ) AND (p_tier <> 1 OR stop_until IS NOT NULL OR EXISTS (
        SELECT FROM fairpost.sender_rules r WHERE r.workspace = p_workspace AND r.level = p_level AND r.key = p_name AND (r.tier IS NOT NULL OR r.throttled_until IS NOT NULL))) THEN
        PERFORM fairpost.set_tier(p_workspace, p_level, p_name, p_tier, stop_until, why ->> 'code', why -> 'params', t);
        INSERT INTO fairpost.events (at, kind, workspace, subject, detail)
        VALUES (t, CASE WHEN stop_until > t THEN 'throttled' ELSE 'tier' END, p_workspace, p_level || ' ' || p_name,
                jsonb_strip_nulls(jsonb_build_object('tier', p_tier, 'until', stop_until, 'reason', why -> 'code', 'params', why -> 'params', 'score', p_score)));
        INSERT INTO fairpost.outbox (at, kind, workspace, subject, reason, params)
        SELECT t, 'sender.throttled', p_workspace, nullif(p_name, ''), why ->> 'code', why -> 'params' WHERE stop_until > t;
    END IF;
    RETURN true;
END $$;

-- Returns the senders that are due for a check, earliest first, in the order of the due-time index.
CREATE OR REPLACE FUNCTION fairpost.senders_to_look_at(p_max integer, p_now timestamptz) RETURNS SETOF fairpost.senders
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT s.* FROM fairpost.senders s WHERE s.look_at <= p_now ORDER BY s.look_at LIMIT p_max
$$;

-- Returns throttled senders about which the operators have not been notified. There is no ORDER BY, because it could make the planner use the primary
-- key, which covers all senders.
CREATE OR REPLACE FUNCTION fairpost.untold(p_max integer) RETURNS SETOF fairpost.senders
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT s.* FROM fairpost.senders s WHERE s.untold LIMIT p_max
$$;

-- Records that operators were notified of these throttles, and enqueues the notices in the same transaction. Returns false if this was already
-- recorded.
CREATE OR REPLACE FUNCTION fairpost.tell(p_workspaces text[], p_levels text[], p_names text[], p_emails jsonb, p_now timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    n integer;
BEGIN
    UPDATE fairpost.senders s SET untold = false
    FROM unnest(p_workspaces, p_levels, p_names) w(workspace, level, name)
    WHERE s.workspace = w.workspace AND s.level = w.level::fairpost.node_level AND s.name = w.name AND s.untold;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n = 0 THEN
        RETURN false;
    END IF;
    PERFORM fairpost.enqueue(e, p_now) FROM jsonb_array_elements(p_emails) e;
    RETURN true;
END $$;

-- Returns the users of a workspace that have counters. Skips from one user to the next in the index and reads the newest version of each.
CREATE OR REPLACE FUNCTION fairpost.users_with_activity(p_workspace text) RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE users(name) AS (
        (SELECT a.user_name FROM fairpost.activity a WHERE a.workspace = p_workspace ORDER BY a.user_name DESC, a.hour DESC, a.writer DESC, a.turn DESC LIMIT 1)
        UNION ALL
        SELECT (SELECT a.user_name FROM fairpost.activity a WHERE a.workspace = p_workspace AND a.user_name < u.name
                ORDER BY a.user_name DESC, a.hour DESC, a.writer DESC, a.turn DESC LIMIT 1)
        FROM users u WHERE u.name IS NOT NULL
    )
    SELECT u.name FROM users u WHERE u.name IS NOT NULL
$$;

-- Returns a user's counters for this period. Recent hours (after `p_counted`) have many row versions while a transaction is held open, so they are
-- looked up one by one, each by its newest version.
CREATE OR REPLACE FUNCTION fairpost.activity_of(p_workspace text, p_user text, p_after timestamptz, p_counted timestamptz, p_until timestamptz) RETURNS SETOF fairpost.activity
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE newest(counter) AS (
        (SELECT a FROM fairpost.activity a WHERE a.workspace = p_workspace AND a.user_name = p_user AND a.hour > p_counted AND a.hour <= p_until
         ORDER BY a.hour DESC, a.writer DESC, a.turn DESC LIMIT 1)
        UNION ALL
        SELECT (SELECT a FROM fairpost.activity a
                WHERE a.workspace = p_workspace AND a.user_name = p_user AND a.hour > p_counted AND (a.hour, a.writer) < ((n.counter).hour, (n.counter).writer)
                ORDER BY a.hour DESC, a.writer DESC, a.turn DESC LIMIT 1)
        FROM newest n WHERE (n.counter).hour IS NOT NULL
    )
    SELECT (n.counter).* FROM newest n WHERE (n.counter).hour IS NOT NULL
    UNION ALL
    SELECT a.* FROM (SELECT * FROM fairpost.activity a   -- ordered by the whole key, to keep the planner from using the index on hour alone, which covers all users
                     WHERE a.workspace = p_workspace AND a.user_name = p_user AND a.hour > p_after AND a.hour <= p_counted ORDER BY a.hour, a.writer, a.turn) a
$$;

-- Returns senders with the data needed to compute a score and a tier: the hours of the past day, the planned hours, and the volume of each previous
-- day. For a workspace, this includes all its users and mail without a user. The result is not sorted. Otherwise, the planner might read the index on
-- hour alone, which covers all users, and sort its rows.
CREATE OR REPLACE FUNCTION fairpost.senders_with_activity(p_workspaces text[], p_levels text[], p_names text[], p_now timestamptz DEFAULT NULL)
RETURNS TABLE (known fairpost.senders, workspace text, level text, name text, hours jsonb, days jsonb)
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET timezone = 'UTC' SET enable_seqscan = off SET jit = off SET enable_bitmapscan = off
    SET enable_sort = off SET enable_incremental_sort = off AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    day CONSTANT interval := '24 hours';
    unfolded CONSTANT timestamptz := date_trunc('day', t - day);
BEGIN
    RETURN QUERY
    SELECT s.known, w.workspace, w.level, w.name,
        (SELECT jsonb_object_agg(h.hour, ARRAY[h.volume, h.sent, h.bounced, h.rejected])
         FROM (SELECT a.hour, sum(a.volume) AS volume, sum(a.sent) AS sent, sum(a.bounced) AS bounced, sum(a.rejected) AS rejected
               FROM unnest(users.names) u(name) CROSS JOIN LATERAL fairpost.activity_of(w.workspace, u.name, t - day, fairpost.hour_of(t) - interval '2 hours', t + day) a
               GROUP BY a.hour) h),
        (SELECT jsonb_object_agg(d.day, d.volume)
         FROM (SELECT d.day, sum(d.volume) AS volume
               FROM (SELECT d.day, d.volume FROM fairpost.activity_days d WHERE d.workspace = w.workspace AND d.user_name = w.name AND w.level = 'user'
                     UNION ALL SELECT d.day, d.volume FROM fairpost.activity_days d WHERE d.workspace = w.workspace AND w.level = 'workspace'
                     UNION ALL   -- completed days whose hours have not been combined yet
                     SELECT (a.hour AT TIME ZONE 'UTC')::date, a.volume
                     FROM unnest(users.names) u(name) CROSS JOIN LATERAL (
                         SELECT * FROM fairpost.activity a WHERE a.workspace = w.workspace AND a.user_name = u.name AND a.hour < unfolded ORDER BY a.hour, a.writer, a.turn) a
                     OFFSET 0) d
               GROUP BY d.day) d)
    FROM unnest(p_workspaces, p_levels, p_names) w(workspace, level, name)
    CROSS JOIN LATERAL (SELECT CASE w.level WHEN 'user' THEN ARRAY[w.name] ELSE ARRAY(SELECT fairpost.users_with_activity(w.workspace)) END AS names OFFSET 0) users
    LEFT JOIN LATERAL (
        SELECT s AS known FROM fairpost.senders s WHERE s.workspace = w.workspace AND s.level = w.level::fairpost.node_level AND s.name = w.name OFFSET 0) s ON true;
END $$;

-- Marks users as changed if they have mail planned for this hour. Called when the hour begins.
CREATE OR REPLACE FUNCTION fairpost.mark_hour(p_hour timestamptz) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO fairpost.dirty_senders (workspace, user_name, at)
    SELECT DISTINCT a.workspace, a.user_name, fairpost.hour_of(p_hour) FROM fairpost.activity a WHERE a.hour = fairpost.hour_of(p_hour) AND a.volume > 0
$$;

-- Returns the writer of an account's counters. Mail released by the fair queue and mail released in order of arrival have different writers.
CREATE OR REPLACE FUNCTION fairpost.writer_of(p_account bigint, p_fair boolean) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT '#' || p_account || CASE WHEN p_fair THEN '' ELSE ' fifo' END
$$;

CREATE OR REPLACE FUNCTION fairpost.was_fair(p_writer text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_writer NOT LIKE '#% fifo'
$$;

-- Records an account's outcomes since the last call. Adds them to the account's own counters, each found by its newest version. No other worker can
-- write these counters, because the lease is locked. Returns the figures needed to decide whether a sender or the account is to blame (see
-- blocks.sql). `p_outcomes`: [{workspace, user, is_fair, handled, bounces, refused, refusal, sent, bounced, rejected, offended_at}]. `handled`
-- (e-mails) and `bounces` (addresses) are for the account's day; the other numbers count e-mails. `p_measures`: [{kind, tier, n, total_us, buckets}].
DROP FUNCTION IF EXISTS fairpost.tally(bigint, bigint, jsonb);
DROP FUNCTION IF EXISTS fairpost.book(bigint, bigint, jsonb, jsonb, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.book(p_account bigint, p_epoch bigint, p_outcomes jsonb, p_measures jsonb, p_now timestamptz DEFAULT NULL)
RETURNS TABLE (suspects jsonb, others_sent integer, senders integer, blocks integer)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    hour_now CONSTANT timestamptz := fairpost.hour_of(t);
    lease fairpost.leases;
BEGIN
    SELECT * INTO lease FROM fairpost.leases l WHERE l.account_id = p_account AND l.epoch = p_epoch ORDER BY l.step DESC LIMIT 1 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);   -- these are only counters, so losing some in a crash does no harm
    WITH told AS MATERIALIZED (
        SELECT o.workspace, fairpost.normalize_user(o."user") AS user_name, w.writer, o.sent, o.bounced, o.rejected, newest.spot
        FROM jsonb_to_recordset(p_outcomes) o(workspace text, "user" text, is_fair boolean, sent integer, bounced integer, rejected integer)
        CROSS JOIN LATERAL (SELECT fairpost.writer_of(p_account, o.is_fair) AS writer OFFSET 0) w
        LEFT JOIN LATERAL (
            SELECT a.ctid AS spot FROM fairpost.activity a WHERE a.workspace = o.workspace AND a.user_name = fairpost.normalize_user(o."user") AND a.hour = hour_now AND a.writer = w.writer
            ORDER BY a.turn DESC LIMIT 1) newest ON true
    ), added AS (
        UPDATE fairpost.activity a SET sent = a.sent + o.sent, bounced = a.bounced + o.bounced, rejected = a.rejected + o.rejected, turn = a.turn + 1
        FROM told o WHERE a.ctid = o.spot
    )
    INSERT INTO fairpost.activity (workspace, user_name, hour, writer, sent, bounced, rejected)
    SELECT o.workspace, o.user_name, hour_now, o.writer, o.sent, o.bounced, o.rejected FROM told o WHERE o.spot IS NULL;
    INSERT INTO fairpost.dirty_senders (workspace, user_name, at)
    SELECT o.workspace, fairpost.normalize_user(o."user"), coalesce(o.offended_at, t)
    FROM jsonb_to_recordset(p_outcomes) o(workspace text, "user" text, bounced integer, rejected integer, offended_at timestamptz), fairpost.fairness f
    WHERE f.single AND f.is_scoring AND o.bounced + o.rejected > 0;   -- only bounces and rejections can be offences
    WITH told AS MATERIALIZED (
        SELECT o.*, newest.spot FROM jsonb_to_recordset(p_measures) o(kind text, tier smallint, n bigint, total_us bigint, buckets jsonb)
        LEFT JOIN LATERAL (
            SELECT m.ctid AS spot FROM fairpost.measures m WHERE m.hour = hour_now AND m.account_id = p_account AND m.kind = o.kind AND m.tier = o.tier
            ORDER BY m.turn DESC LIMIT 1) newest ON true
    ), added AS (
        UPDATE fairpost.measures m SET n = m.n + o.n, total_us = m.total_us + o.total_us, buckets = fairpost.add_counts(m.buckets, o.buckets), turn = m.turn + 1
        FROM told o WHERE m.ctid = o.spot
    )
    INSERT INTO fairpost.measures (hour, account_id, kind, tier, n, total_us, buckets)
    SELECT hour_now, p_account, o.kind, o.tier, o.n, o.total_us, o.buckets FROM told o WHERE o.spot IS NULL;
    UPDATE fairpost.mailboxes m SET failed_since = NULL   -- a sent e-mail proves that the login works
    WHERE m.account_id = p_account AND m.failed_since IS NOT NULL AND EXISTS (SELECT FROM jsonb_to_recordset(p_outcomes) o(sent integer) WHERE o.sent > 0);
    IF lease.day_started_at IS NOT NULL AND p_outcomes <> '[]' THEN
        RETURN QUERY SELECT * FROM fairpost.count_outcomes(lease, p_outcomes, t);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION fairpost.add_counts(a jsonb, b jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(jsonb_object_agg(k, n), '{}') FROM (
        SELECT k, sum(n::bigint) AS n FROM (SELECT * FROM jsonb_each_text(a) UNION ALL SELECT * FROM jsonb_each_text(b)) both_of_them(k, n) GROUP BY k) summed
$$;

-- Combines completed hours into days, and deletes old hours and days. Returns false if another engine is doing this.
CREATE OR REPLACE FUNCTION fairpost.fold_activity(p_now timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    -- All days before this one ended at least 24 hours ago.
    before CONSTANT timestamptz := date_trunc('day', t - interval '24 hours');
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('fairpost fold', 0)) THEN
        RETURN false;
    END IF;
    WITH gone AS (
        DELETE FROM fairpost.activity a WHERE a.hour < before RETURNING a.*
    )
    INSERT INTO fairpost.activity_days AS d (workspace, user_name, day, volume)
    SELECT g.workspace, g.user_name, g.hour::date, sum(g.volume) FROM gone g GROUP BY 1, 2, 3 HAVING sum(g.volume) > 0
    ON CONFLICT (workspace, user_name, day) DO UPDATE SET volume = d.volume + excluded.volume;
    DELETE FROM fairpost.activity_days d WHERE d.day < (t - interval '31 days')::date;
    DELETE FROM fairpost.measures m WHERE m.hour < t - interval '8 days';
    DELETE FROM fairpost.submissions s WHERE s.hour < t - interval '25 hours';
    RETURN true;
END $$;

-- Returns the number of queued e-mails and the due time of the oldest e-mail that is due and not held. The cost depends on the number of senders,
-- never on the number of e-mails. The function walks down the tree through the senders that have mail to serve, in claim order. It reads the first
-- e-mail of each of the thousand senders that, judging by their places, have waited longest.
CREATE OR REPLACE FUNCTION fairpost.queue_now(p_now timestamptz DEFAULT NULL, OUT queued bigint, OUT oldest_at timestamptz)
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET enable_bitmapscan = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    queued := (SELECT coalesce(sum(w.waiting), 0) FROM fairpost.waiting_by_route(t) w);
    oldest_at := (
        WITH RECURSIVE active(id, v, flow, head_due) AS (
            SELECT n.id, c.v, NULL::uuid, NULL::timestamptz FROM fairpost.nodes n CROSS JOIN LATERAL fairpost.node_state_now(ARRAY[n.id]) c WHERE n.parent = 0
            UNION ALL
            SELECT c.id, c.v, c.flow, c.head_due FROM active a CROSS JOIN LATERAL (
                SELECT * FROM fairpost.node_state c WHERE c.parent = a.id AND c.busy > 0 AND c.held_until IS NULL AND c.vtime >= a.v ORDER BY c.vtime) c
        )
        SELECT min(q.due_at)
        FROM (SELECT a.flow, a.head_due FROM active a WHERE a.flow IS NOT NULL ORDER BY a.head_due LIMIT 1000) a
        CROSS JOIN LATERAL (SELECT q.due_at FROM fairpost.queue q WHERE q.flow = a.flow AND q.waiting AND q.due_at >= a.head_due ORDER BY q.due_at LIMIT 1) q
        WHERE q.due_at <= t);
END $$;
