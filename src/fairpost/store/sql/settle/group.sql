-- Takes the ordinary steps of many accounts in one commit. Each account settles the e-mail that it has sent, begins its next one, or does both.
--
-- A step is ordinary if every check of `settle` and `begin_send` passes, the outcome is `sent`, and the next e-mail may be sent unchanged. The step
-- is taken completely or not at all, with the same numbers as a single step. If a step is not ordinary (for example, because a recipient is
-- suppressed, the sender is held or the quota is used up) or one of its rows is locked, it is omitted and nothing changes. Its worker then takes it
-- as a single step. A group therefore waits only for the pause lock and the quota locks, which are always taken in the same order. All accounts in
-- the group share the cost of the commit (a few statements and one write to disk).
--
-- Lock order: leases (skipped if locked), the pause, quotas, e-mails (skipped if locked), their follow-ups (skipped if locked).
--
-- Each account is given with its epoch and the number of this step. `s_…` is the e-mail that was sent and the server's answer. `b_…` is the e-mail to
-- send next and the account's usage after the begin. `stepped` contains the accounts for which the step was taken, with the `attempt` that was begun.
-- `now` is the time.
CREATE OR REPLACE FUNCTION fairpost.step_group(
    a_id bigint[], a_epoch bigint[], a_step bigint[],
    s_id bigint[], s_code smallint[], s_reply text[], s_ms integer[], s_message_id text[], s_thread_id text[], s_recipients jsonb[],
    b_id bigint[], b_hour timestamptz[], b_hour_used integer[], b_day timestamptz[], b_day_used integer[], b_gap double precision[], b_warm integer[], b_units integer[],
    p_now timestamptz DEFAULT NULL, OUT stepped bigint[], OUT attempt integer[], OUT now timestamptz
)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    locked text;
    ready bigint[];        -- positions of the accounts whose lease is valid and at the right step
    places bigint[];       -- positions of the accounts for which the step is taken
    settled bigint[];
    followed bigint[];     -- settled e-mails that have follow-ups
    charged text[];        -- workspaces with a quota that was charged
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'step_group: needs the isolation level read committed, got %', current_setting('transaction_isolation') USING ERRCODE = 'FP002';
    END IF;
    IF current_setting('synchronous_commit') = 'off' THEN   -- may have been left in the session by another client of a pooler
        locked := set_config('synchronous_commit', 'on', true);
    END IF;
    ready := ARRAY(
        SELECT k.place FROM (SELECT * FROM unnest(a_id, a_epoch, a_step) WITH ORDINALITY k(account, epoch, step, place) ORDER BY k.account) k
        CROSS JOIN LATERAL (SELECT l.epoch, l.step, l.server FROM fairpost.leases l WHERE l.account_id = k.account ORDER BY l.step DESC LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) l
        WHERE l.epoch = k.epoch AND l.step = k.step - 1 AND l.server = pg_postmaster_start_time());
    IF ready = '{}' THEN
        now := coalesce(p_now, clock_timestamp());
        RETURN;
    END IF;
    locked := pg_advisory_xact_lock_shared(fairpost.pause_lock());   -- an assignment, because PERFORM would run a whole query
    now := coalesce(p_now, clock_timestamp());
    IF EXISTS (SELECT FROM unnest(b_id) b(id) CROSS JOIN LATERAL (SELECT q.campaign_id FROM fairpost.queue q WHERE q.id = b.id OFFSET 0) q WHERE q.campaign_id IS NOT NULL) THEN
        SELECT l.workspaces, l.now INTO charged, now FROM fairpost.lock_quotas(b_id, p_now) l;
    END IF;

    -- Locks first, then reads. The leases, the pause and the quotas are locked by now, and this is a new statement.
    WITH judged AS MATERIALIZED (
        SELECT k.place, k.account, k.settles, s.follower, b.attempts + 1 AS attempt, b.quota_of, b.allowed
        FROM unnest(ready) r(place)
        CROSS JOIN LATERAL (SELECT r.place, a_id[r.place] AS account, a_epoch[r.place] AS epoch, s_id[r.place] AS settles, b_id[r.place] AS begins) k
        LEFT JOIN LATERAL (
            SELECT q.id, f.id AS follower
            FROM (SELECT q.id, q.workspace, q.addresses, q.campaign_id FROM fairpost.queue q
                  WHERE q.id = k.settles AND q.account_id = k.account AND q.epoch = k.epoch AND q.state = 'sending' AND q.last_error IS NULL FOR UPDATE SKIP LOCKED) q
            LEFT JOIN LATERAL (
                SELECT f.id FROM (SELECT f.id, f.prospect_id FROM fairpost.queue f
                                  WHERE f.follows = q.id AND f.campaign_id IS NOT NULL AND f.state = 'waiting' AND f.due_at = 'infinity' LIMIT 1 FOR UPDATE SKIP LOCKED) f
                CROSS JOIN LATERAL (SELECT FROM fairpost.prospects p WHERE p.id = f.prospect_id AND NOT p.is_paused OFFSET 0) p) f ON q.campaign_id IS NOT NULL
            WHERE (q.campaign_id IS NULL OR f.id IS NOT NULL OR NOT EXISTS (
                      SELECT FROM fairpost.queue f WHERE f.follows = q.id AND f.campaign_id IS NOT NULL AND f.state = 'waiting' AND f.due_at = 'infinity'))
            AND NOT EXISTS (   -- recipients with recent soft bounces, which a single step clears
                SELECT FROM unnest(q.addresses) x(address) CROSS JOIN LATERAL (
                    SELECT FROM fairpost.soft_bounces o WHERE o.workspace = q.workspace AND o.address = fairpost.normalize_address(x.address) OFFSET 0) o)) s ON true
        LEFT JOIN LATERAL (
            SELECT q.id, q.attempts, (c.day).workspace AS quota_of, (c.day).allowed - (c.day).used AS allowed
            FROM (SELECT q.* FROM fairpost.queue q
                  WHERE q.id = k.begins AND q.account_id = k.account AND q.epoch = k.epoch AND q.state = 'claimed' FOR UPDATE SKIP LOCKED) q
            CROSS JOIN LATERAL (
                SELECT FROM fairpost.leases l JOIN fairpost.accounts a ON a.id = l.account_id
                WHERE l.account_id = k.account AND l.step = a_step[k.place] - 1 AND l.until > step_group.now AND a.status = 'active' AND a.revision = l.revision
                AND NOT EXISTS (SELECT FROM fairpost.blocks o WHERE o.account_id = k.account AND o.workspace = q.workspace AND o.until > step_group.now)) l
            CROSS JOIN LATERAL (SELECT CASE WHEN q.campaign_id IS NOT NULL THEN fairpost.open_campaign(q.campaign_id, q.workspace, q.stream, q.prospect_id, step_group.now) END AS day OFFSET 0) c
            WHERE NOT EXISTS (SELECT FROM fairpost.pauses p WHERE p.everything AND p.until > step_group.now)
            AND (q.expires_at IS NULL OR q.expires_at > step_group.now) AND (q.campaign_id IS NULL OR (c.day).used IS NOT NULL)
            AND NOT EXISTS (
                SELECT FROM unnest(q.addresses) x(address) CROSS JOIN LATERAL (
                    SELECT FROM fairpost.suppressions o WHERE o.address = fairpost.normalize_address(x.address) AND o.workspace IN (q.workspace, '*')
                    AND fairpost.stops_mail(o.kind, o.also_urgent, q.class) OFFSET 0) o)
            AND (NOT EXISTS (SELECT FROM fairpost.suppression_hashes) OR fairpost.suppressed(q.workspace, q.addresses, q.class) = '{}')
            AND NOT EXISTS (
                SELECT FROM (VALUES ('workspace'::fairpost.node_level, ''), ('domain', q.domain), ('user', q.user_name), ('stream', q.stream)) v(level, key) CROSS JOIN LATERAL (
                    SELECT FROM fairpost.sender_rules o WHERE o.workspace = q.workspace AND o.level = v.level AND o.key = v.key
                    AND greatest(o.held_until, o.throttled_until, o.closed_until) > step_group.now OFFSET 0) o)) b ON true
        WHERE (k.settles IS NULL OR s.id IS NOT NULL) AND (k.begins IS NULL OR b.id IS NOT NULL)
    ), taken AS (   -- if a quota covers only some of these e-mails, the first ones use it
        SELECT * FROM (SELECT j.*, row_number() OVER (PARTITION BY j.quota_of ORDER BY j.place) AS nth FROM judged j) j
        WHERE j.quota_of IS NULL OR j.nth <= j.allowed AND j.quota_of = ANY (charged)
    )
    SELECT array_agg(t.place), array_agg(t.account), array_agg(t.attempt), array_agg(t.settles) FILTER (WHERE t.settles IS NOT NULL),
           array_agg(t.settles) FILTER (WHERE t.follower IS NOT NULL), array_agg(t.quota_of) FILTER (WHERE t.quota_of IS NOT NULL)
    INTO places, stepped, attempt, settled, followed, charged FROM taken t;
    IF places IS NULL THEN
        RETURN;
    END IF;

    WITH step AS MATERIALIZED (
        SELECT p.place, a_id[p.place] AS account, s_id[p.place] AS settles, b_id[p.place] AS begins FROM unnest(places) p(place)
    ), logged AS (
        INSERT INTO fairpost.attempts (email_id, n, account_id, epoch, begun_at, ended_at, outcome, code, reply, response_ms, recipients)
        SELECT q.id, q.attempts, q.account_id, q.epoch, q.begun_at, step_group.now, 'sent', s_code[t.place], left(s_reply[t.place], 2000), s_ms[t.place], s_recipients[t.place]
        FROM step t CROSS JOIN LATERAL (SELECT * FROM fairpost.queue q WHERE q.id = t.settles OFFSET 0) q
    ), begun AS (
        UPDATE fairpost.queue q SET state = 'sending', attempts = q.attempts + 1, begun_at = step_group.now, evidence = NULL FROM step t WHERE q.id = t.begins AND q.id = ANY (b_id)
    )
    UPDATE fairpost.leases l SET
        step = l.step + 1,
        deaths = CASE WHEN t.settles IS NOT NULL THEN 0 ELSE l.deaths END,
        sent_total = l.sent_total + (t.settles IS NOT NULL)::integer,
        day_bounces = CASE WHEN t.begins IS NOT NULL AND l.day_started_at IS DISTINCT FROM b_day[t.place] THEN 0 ELSE l.day_bounces END,
        day_errors = CASE WHEN t.begins IS NOT NULL AND l.day_started_at IS DISTINCT FROM b_day[t.place] THEN 0 ELSE l.day_errors END,
        hour_started_at = CASE WHEN t.begins IS NOT NULL THEN b_hour[t.place] ELSE l.hour_started_at END,
        hour_used = CASE WHEN t.begins IS NOT NULL THEN b_hour_used[t.place] ELSE l.hour_used END,
        day_started_at = CASE WHEN t.begins IS NOT NULL THEN b_day[t.place] ELSE l.day_started_at END,
        day_used = CASE WHEN t.begins IS NOT NULL THEN b_day_used[t.place] ELSE l.day_used END,
        gap_roll = CASE WHEN t.begins IS NOT NULL THEN coalesce(b_gap[t.place], 0) ELSE l.gap_roll END,
        warm_day = CASE WHEN t.begins IS NOT NULL THEN coalesce(b_warm[t.place], l.warm_day) ELSE l.warm_day END,
        last_begun_at = CASE WHEN t.begins IS NOT NULL THEN step_group.now ELSE l.last_begun_at END
    FROM step t WHERE l.account_id = t.account AND l.step = a_step[t.place] - 1;

    IF EXISTS (SELECT FROM unnest(b_units) u(units) WHERE u.units IS NOT NULL) THEN
        INSERT INTO fairpost.charges (account_id, at, email_id, units)
        SELECT a_id[p.place], step_group.now, b_id[p.place], b_units[p.place] FROM unnest(places) p(place) WHERE b_units[p.place] IS NOT NULL AND b_id[p.place] IS NOT NULL;
    END IF;
    IF charged IS NOT NULL THEN
        locked := fairpost.use_quotas(charged, now);
    END IF;
    IF settled IS NOT NULL THEN
        locked := fairpost.move_to_history(settled, 'sent', NULL, NULL, now, s_id, s_message_id, s_thread_id);
    END IF;
    IF followed IS NOT NULL THEN
        locked := fairpost.schedule_followers(followed, now);
    END IF;
END $$;

-- Makes the same checks as `admit_to_campaign` for a campaign's e-mail: whether the stream is open, and whether the prospect exists and is neither
-- stopped nor paused. Returns the quota for the day (without a workspace if there is no quota), or null if the e-mail may not begin unchanged.
CREATE OR REPLACE FUNCTION fairpost.open_campaign(p_campaign bigint, p_workspace text, p_stream text, p_prospect bigint, p_now timestamptz) RETURNS fairpost.quotas
LANGUAGE plpgsql STABLE AS $$
DECLARE
    got record;
    today fairpost.quotas;
BEGIN
    SELECT w.daily_max, t.q INTO got
    FROM (SELECT c.workspace, c.state FROM fairpost.campaigns c WHERE c.id = p_campaign OFFSET 0) c
    CROSS JOIN LATERAL (SELECT s.open FROM fairpost.campaign_streams s WHERE s.workspace = p_workspace AND s.stream = p_stream OFFSET 0) s
    LEFT JOIN LATERAL (SELECT w.daily_max FROM fairpost.schedules w WHERE w.workspace = c.workspace OFFSET 0) w ON true
    LEFT JOIN LATERAL (SELECT q FROM fairpost.quotas q WHERE q.workspace = p_workspace AND q.starts_at <= p_now AND q.ends_at > p_now AND w.daily_max IS NOT NULL
                       ORDER BY q.starts_at DESC, q.turn DESC LIMIT 1) t ON true
    WHERE c.state IN ('scheduled', 'running', 'completed') AND coalesce(s.open @> p_now, true)
    AND EXISTS (SELECT FROM fairpost.prospects p WHERE p.id = p_prospect AND NOT p.is_paused)
    AND NOT EXISTS (SELECT FROM fairpost.opt_outs o WHERE o.prospect_id = p_prospect AND o.campaign_id IN (p_campaign, 0));
    IF FOUND AND got.daily_max IS NULL THEN
        today.used := 0;
    ELSIF FOUND THEN
        today := got.q;
    END IF;
    RETURN today;
END $$;

-- For the workspaces whose campaigns have these e-mails, locks today's quotas, always in the same order. `workspaces` are those whose quota is locked,
-- and `now` is the time once all of them are. If another day began in the meantime, its quotas are not locked, and their workspaces are omitted.
DROP FUNCTION IF EXISTS fairpost.lock_quotas(bigint[], timestamptz);
CREATE OR REPLACE FUNCTION fairpost.lock_quotas(p_ids bigint[], p_now timestamptz, OUT workspaces text[], OUT now timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    each text;
    today record;
    days tstzrange[] := '{}';
BEGIN
    workspaces := '{}';
    FOR each IN
        SELECT DISTINCT q.workspace FROM unnest(p_ids) i(id) CROSS JOIN LATERAL (SELECT q.workspace, q.campaign_id FROM fairpost.queue q WHERE q.id = i.id OFFSET 0) q
        JOIN fairpost.schedules w ON w.workspace = q.workspace AND w.daily_max IS NOT NULL WHERE q.campaign_id IS NOT NULL ORDER BY q.workspace
    LOOP
        SELECT q.starts_at, q.ends_at INTO today FROM fairpost.quotas q WHERE q.workspace = each AND q.starts_at <= t AND q.ends_at > t
        ORDER BY q.starts_at DESC, q.turn DESC LIMIT 1 FOR NO KEY UPDATE;
        IF FOUND THEN
            workspaces := workspaces || each;
            days := days || tstzrange(today.starts_at, today.ends_at);
        END IF;
    END LOOP;
    now := coalesce(p_now, clock_timestamp());
    workspaces := ARRAY(SELECT l.workspace FROM unnest(workspaces, days) l(workspace, day) WHERE l.day @> lock_quotas.now);
END $$;

-- Charges one e-mail to today's quota for each entry. The caller has locked the rows and checked that the quotas are sufficient.
CREATE OR REPLACE FUNCTION fairpost.use_quotas(p_workspaces text[], p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fairpost.quotas q SET used = q.used + x.n, turn = q.turn + 1
    FROM (SELECT w.workspace, count(*)::integer AS n FROM unnest(p_workspaces) w(workspace) GROUP BY w.workspace) x
    CROSS JOIN LATERAL (SELECT t.starts_at, t.turn FROM fairpost.quotas t WHERE t.workspace = x.workspace AND t.starts_at <= p_now AND t.ends_at > p_now
                        ORDER BY t.starts_at DESC, t.turn DESC LIMIT 1) t
    WHERE q.workspace = x.workspace AND q.starts_at = t.starts_at AND q.turn = t.turn;
END $$;
