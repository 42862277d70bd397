-- Limits how many e-mails one user may submit per day and have in the queue, and how many all users of a workspace together may submit. The limits
-- apply to submissions over SMTP or HTTP. If a user or workspace has a limit of its own, that limit applies to every submission. The user '' always
-- means the workspace as a whole.

-- Counts e-mails that are scheduled or ready. Never reads all arrivals, even with a plan that was made when there were few arrivals.
DROP FUNCTION IF EXISTS fairpost.waiting_of(text, text, bigint);
CREATE OR REPLACE FUNCTION fairpost.waiting_of(p_workspace text, p_user text) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    RETURN coalesce((SELECT sum(c.waiting)
                     FROM (SELECT n.id FROM fairpost.nodes n   -- as in find_homes
                           WHERE n.workspace = p_workspace AND n.level = 'user' AND n.key BETWEEN p_user AND p_user ORDER BY n.key) n
                     CROSS JOIN LATERAL (SELECT c.waiting FROM fairpost.node_state c WHERE c.id = n.id OFFSET 0) c), 0)
         + coalesce((SELECT sum(a.n) FROM fairpost.arrivals a WHERE a.workspace = p_workspace AND a.user_name = p_user), 0);
END $$;

-- The users of a workspace share about a thousand locks, because a call that names ten thousand users must not fill the server's lock table.
-- Transactions from different workspaces never wait for each other.
CREATE OR REPLACE FUNCTION fairpost.quota_lock(p_workspace text, p_user text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT 5836665117072162816 + ((hashtextextended(p_workspace, 0) & 4294967295) << 10) + (hashtextextended(p_user, 0) & 1023)
$$;

-- Makes other submissions by these users wait until this transaction ends. To prevent deadlocks, all callers take these locks in the same order, so a
-- transaction that submits more than once must call this function first.
CREATE OR REPLACE FUNCTION fairpost.lock_users(p_workspace text, p_users text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(fairpost.quota_lock(p_workspace, ''));   -- always lock workspaces first
    PERFORM pg_advisory_xact_lock(l.lock) FROM (SELECT DISTINCT fairpost.quota_lock(p_workspace, fairpost.normalize_user(u)) AS lock FROM unnest(p_users) u ORDER BY 1 OFFSET 0) l;
END $$;

-- Returns the number of e-mails submitted in the past 24 hours.
CREATE OR REPLACE FUNCTION fairpost.submitted(p_workspace text, p_user text, p_now timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    RETURN (SELECT coalesce(sum(s.n), 0) FROM fairpost.submissions s WHERE s.workspace = p_workspace AND s.user_name = p_user AND s.hour + interval '24 hours' > p_now);
END $$;

-- Returns how many more e-mails a user or workspace may submit now. If the number is less than `p_asked`, also returns the reason, and the time at
-- which the rest can be submitted if as many as possible are accepted now (null if unknown). The caller holds the user's lock.
DROP FUNCTION IF EXISTS fairpost.room_for(text, text, integer, integer, integer, timestamptz, bigint);
CREATE OR REPLACE FUNCTION fairpost.room_for(
    p_workspace text, p_user text, p_asked integer, p_daily_max integer, p_waiting_max integer, p_now timestamptz,
    OUT room integer, OUT why text, OUT until timestamptz
)
LANGUAGE plpgsql AS $$
DECLARE
    day_room integer := 2147483647;
    waiting_room integer := 2147483647;
    used bigint;
    waiting bigint;
    per_hour double precision;
BEGIN
    IF p_daily_max IS NOT NULL THEN
        -- Here and below, the hour is part of an expression, to keep the planner from using the index on hour alone, which covers all users. There
        -- are at most as many rows as there are hours in a day.
        used := fairpost.submitted(p_workspace, p_user, p_now);
        day_room := greatest(0, p_daily_max - used);
    END IF;
    IF p_waiting_max IS NOT NULL THEN
        waiting := fairpost.waiting_behind(p_workspace, nullif(p_user, ''));
        waiting_room := greatest(0, p_waiting_max - waiting);
    END IF;
    room := least(day_room, waiting_room, p_asked);
    IF room = p_asked THEN
        RETURN;
    ELSIF day_room <= waiting_room THEN
        -- An hour no longer counts once 24 hours have passed since it began.
        until := (SELECT min(h.gone_at) FROM (
                      SELECT s.hour + interval '24 hours' AS gone_at, sum(s.n) OVER (ORDER BY s.hour) AS freed
                      FROM (SELECT s.hour, s.n FROM fairpost.submissions s
                            WHERE s.workspace = p_workspace AND s.user_name = p_user AND s.hour + interval '24 hours' > p_now
                            UNION ALL SELECT fairpost.hour_of(p_now), room OFFSET 0) s) h
                  WHERE used + room - h.freed + least(p_asked - room, p_daily_max) <= p_daily_max);
        why := format('%s of %s e-mails in 24 hours are used up', used + room, p_daily_max);
    ELSE
        per_hour := (SELECT coalesce(sum(a.sent + a.bounced + a.rejected), 0)
                     FROM (SELECT * FROM fairpost.activity a   -- as in senders_with_activity
                           WHERE a.workspace = p_workspace AND a.user_name = p_user AND p_user <> '' AND a.hour > p_now - interval '1 hour' AND a.hour <= p_now
                           ORDER BY a.hour, a.writer, a.turn) a)
                  + (SELECT coalesce(sum(a.sent + a.bounced + a.rejected), 0)
                     FROM (SELECT * FROM fairpost.activity a
                           WHERE a.workspace = p_workspace AND p_user = '' AND a.hour > p_now - interval '1 hour' AND a.hour <= p_now
                           ORDER BY a.user_name, a.hour, a.writer, a.turn) a);
        until := CASE WHEN per_hour > 0 THEN date_trunc('second', p_now) + make_interval(secs => ceil(least(p_asked - room, p_waiting_max) / per_hour * 3600)) END;
        why := format('%s e-mails are waiting, and %s may', waiting + room, p_waiting_max);
    END IF;
END $$;

-- Returns the complaint that a user, or '' for the workspace, has submitted too much.
CREATE OR REPLACE FUNCTION fairpost.too_much(p_user text, p_why text, p_until timestamptz) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('field', CASE p_user WHEN '' THEN 'workspace' ELSE 'user' END, 'code', 'too_many', 'until', p_until, 'message', format(
        'has sent too much: %s%s', p_why, coalesce('; there is room again at ' || to_char(p_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                                                   '; there is room again when some of it has gone out')))
$$;

-- Returns which of these e-mails exceed a limit, as {"ord": complaint}, or null if none do. Invalid e-mails do not count. E-mails with a known key do
-- not count either, because they have already been accepted. For each user, the first e-mails within the user's limit are accepted, in the order
-- given, as long as they are within the workspace's limit. Other submissions by these users wait until this transaction ends. Other submissions from
-- the workspace wait only if the workspace is close to its limit or this is a bulk submission. Otherwise, submissions in progress (fewer than
-- `slack`) are not counted.
DROP FUNCTION IF EXISTS fairpost.too_many(jsonb, text[], integer, integer, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.too_many(
    emails jsonb, shared text[], p_daily_max integer, p_waiting_max integer, p_workspace_max integer, p_now timestamptz
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    limited CONSTANT jsonb := (   -- users, then workspaces, with their limits
        SELECT jsonb_agg(to_jsonb(u) ORDER BY u.user_name = '') FROM (
            SELECT x.workspace, x.user_name, array_agg(e.ord ORDER BY e.ord) AS ords, min(x.daily_max) AS daily_max, min(x.waiting_max) AS waiting_max
            FROM (SELECT e.ordinality AS ord, coalesce(e.value ->> 'workspace', 'default') AS workspace, fairpost.normalize_user(coalesce(e.value ->> 'user', '')) AS user_name,
                         e.value ->> 'idempotency_key' AS key, e.value AS e, jsonb_populate_record(NULL::fairpost.plain_fields, e.value) AS o,
                         row_number() OVER (PARTITION BY coalesce(e.value ->> 'workspace', 'default'), coalesce(e.value ->> 'idempotency_key', 'none ' || e.ordinality)) AS nth
                  FROM jsonb_array_elements(emails) WITH ORDINALITY e WHERE jsonb_typeof(e.value) = 'object') e
            LEFT JOIN LATERAL (   -- one lookup per sender, because a plain join may read all senders
                SELECT s.daily_max, s.waiting_max FROM fairpost.senders s WHERE s.workspace = e.workspace AND s.level = 'user' AND s.name = e.user_name OFFSET 0) s ON true
            LEFT JOIN LATERAL (
                SELECT s.daily_max, s.waiting_max FROM fairpost.senders s WHERE s.workspace = e.workspace AND s.level = 'workspace' AND s.name = '' OFFSET 0) w ON true
            CROSS JOIN LATERAL (
                SELECT e.workspace, e.user_name, coalesce(s.daily_max, p_daily_max) AS daily_max, coalesce(s.waiting_max, p_waiting_max) AS waiting_max WHERE e.user_name <> ''
                UNION ALL
                SELECT e.workspace, '', coalesce(w.daily_max, p_workspace_max), w.waiting_max) x
            WHERE (x.daily_max IS NOT NULL OR x.waiting_max IS NOT NULL)
            AND (SELECT true FROM fairpost.idempotency_keys k WHERE k.key_hash = fairpost.caller_key_hash(e.workspace, e.key) LIMIT 1) IS NULL
            AND e.nth = 1 AND (fairpost.is_plain(e.e, e.o, shared) OR fairpost.check_email(e.e, p_now) IS NULL)
            GROUP BY 1, 2) u);
    slack CONSTANT integer := 1000;
    bulk CONSTANT integer := 100;
    refused jsonb;
    ords integer[];
    u record;
    r record;
BEGIN
    PERFORM pg_advisory_xact_lock(l.lock) FROM (   -- always lock workspaces first
        SELECT DISTINCT fairpost.quota_lock(x.workspace, '') AS lock
        FROM jsonb_to_recordset(limited) x(workspace text, user_name text, ords integer[], daily_max integer, waiting_max integer)
        WHERE x.user_name = '' AND (x.waiting_max IS NOT NULL OR cardinality(x.ords) > bulk
                                    OR fairpost.submitted(x.workspace, '', p_now) + cardinality(x.ords) + slack > x.daily_max) ORDER BY 1 OFFSET 0) l;
    PERFORM pg_advisory_xact_lock(l.lock) FROM (   -- always in the same order
        SELECT DISTINCT fairpost.quota_lock(x ->> 'workspace', x ->> 'user_name') AS lock FROM jsonb_array_elements(limited) x WHERE x ->> 'user_name' <> '' ORDER BY 1 OFFSET 0) l;
    FOR u IN SELECT * FROM jsonb_to_recordset(limited) x(workspace text, user_name text, ords integer[], daily_max integer, waiting_max integer) LOOP
        ords := ARRAY(SELECT ord FROM unnest(u.ords) WITH ORDINALITY o(ord, place) WHERE NOT coalesce(refused ? ord::text, false) ORDER BY place);
        r := fairpost.room_for(u.workspace, u.user_name, cardinality(ords), u.daily_max, u.waiting_max, p_now);
        CONTINUE WHEN r.why IS NULL;
        refused := coalesce(refused, '{}') || (
            SELECT jsonb_object_agg(ord::text, fairpost.too_much(u.user_name, r.why, r.until))
            FROM unnest(ords[r.room + 1:]) ord);
    END LOOP;
    RETURN refused;
END $$;

-- Returns one of a workspace's counter slots to which no other open transaction is writing, so counting never waits for another commit. If all
-- slots are taken, a slot is shared.
CREATE OR REPLACE FUNCTION fairpost.counter_place(p_workspace text) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    places_max CONSTANT integer := 64;
BEGIN
    FOR place IN 0..places_max - 2 LOOP
        IF pg_try_advisory_xact_lock(fairpost.quota_lock(p_workspace, '') + 8796093022208 + place) THEN   -- beyond the range of the user locks
            RETURN place;
        END IF;
    END LOOP;
    RETURN places_max - 1;
END $$;

-- Counts accepted e-mails for each user, and for each workspace with a daily limit. The microseconds of an hour identify the workspace's
-- counter slot.
CREATE OR REPLACE FUNCTION fairpost.count_submissions(emails jsonb, ords integer[], news boolean[], p_daily_max integer, p_workspace_max integer, p_now timestamptz) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO fairpost.submissions AS s (workspace, user_name, hour, n)
    SELECT x.workspace, x.user_name, fairpost.hour_of(p_now) + CASE x.user_name WHEN '' THEN fairpost.counter_place(x.workspace) ELSE 0 END * interval '1 microsecond', count(*)
    FROM unnest(ords, news) r(ord, new)
    CROSS JOIN LATERAL (SELECT coalesce(e ->> 'workspace', 'default') AS workspace, fairpost.normalize_user(coalesce(e ->> 'user', '')) AS user_name FROM (SELECT emails -> (r.ord - 1)) x(e)) e
    CROSS JOIN LATERAL (
        SELECT e.workspace, e.user_name WHERE e.user_name <> '' AND coalesce(p_daily_max, (
            SELECT s.daily_max FROM fairpost.senders s WHERE s.workspace = e.workspace AND s.level = 'user' AND s.name = e.user_name)) IS NOT NULL
        UNION ALL
        SELECT e.workspace, '' WHERE coalesce(p_workspace_max, (
            SELECT s.daily_max FROM fairpost.senders s WHERE s.workspace = e.workspace AND s.level = 'workspace' AND s.name = '')) IS NOT NULL) x
    WHERE r.new
    GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (workspace, user_name, hour) DO UPDATE SET n = s.n + excluded.n
$$;
