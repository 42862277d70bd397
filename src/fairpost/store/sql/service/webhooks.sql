-- Webhook delivery: which endpoints have events to deliver, which of them is served next, and how an endpoint's turn ends. An engine leases an
-- endpoint, posts its events, and commits all outcomes at once. If the engine dies before the commit, the next engine posts the same events again,
-- with the same ids.

-- Marks the endpoints that have new events and returns the number of endpoints marked. An endpoint without pending events continues at its new
-- events, so other endpoints' events are never read for an idle endpoint. New events are read once for all endpoints. If only a few of an endpoint's
-- events have failed, the endpoint's pause ends, because the endpoint may have refused only these events. After a response of 429 or 503, which
-- concerns the whole endpoint, the pause does not end.
CREATE OR REPLACE FUNCTION fairpost.wake_webhooks() RETURNS integer
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    turns_max CONSTANT integer := 100;
    enough CONSTANT integer := 3;
    before bigint;
    upto bigint;
    whose text[];
    woken integer;
BEGIN
    IF coalesce((SELECT t.turn FROM fairpost.event_turns t ORDER BY t.turn DESC LIMIT 1), 0) <= (SELECT r.turn FROM fairpost.webhook_reader r) THEN
        RETURN 0;
    END IF;
    SELECT r.turn INTO before FROM fairpost.webhook_reader r FOR UPDATE;
    upto := (SELECT max(t.turn) FROM (SELECT t.turn FROM fairpost.event_turns t WHERE t.turn > before ORDER BY t.turn LIMIT turns_max) t);
    IF upto IS NULL THEN
        RETURN 0;
    END IF;
    whose := ARRAY(
        SELECT DISTINCT o.workspace FROM (SELECT * FROM fairpost.event_turns t WHERE t.turn > before AND t.turn <= upto OFFSET 0) t CROSS JOIN LATERAL (
            SELECT o.workspace FROM fairpost.outbox o
            WHERE o.xid >= t.since AND o.xid < pg_snapshot_xmax(t.snap) AND o.id BETWEEN t.first_id AND t.last_id AND o.at BETWEEN t.first_at AND t.last_at
            UNION ALL
            SELECT o.workspace FROM unnest(t.late) x(xid) CROSS JOIN LATERAL (
                SELECT * FROM fairpost.outbox o WHERE o.xid = x.xid AND o.id BETWEEN t.first_id AND t.last_id AND o.at BETWEEN t.first_at AND t.last_at OFFSET 0) o) o
        WHERE o.workspace IS NOT NULL);
    UPDATE fairpost.webhooks w SET is_behind = true, cursor = before || '.' || (2 ^ 53)::bigint   -- the position after all events of that turn
    WHERE NOT w.is_behind AND (w.workspace IS NULL OR w.workspace = ANY (whose));
    GET DIAGNOSTICS woken = ROW_COUNT;
    UPDATE fairpost.webhooks w SET next_at = NULL
    WHERE w.next_at IS NOT NULL AND (w.workspace IS NULL OR w.workspace = ANY (whose)) AND coalesce(w.params ->> 'status', '') NOT IN ('429', '503')
      AND (SELECT count(*) FROM (SELECT FROM fairpost.webhook_pending p WHERE p.webhook_id = w.id LIMIT enough) p) < enough;
    UPDATE fairpost.webhook_reader r SET turn = upto;
    RETURN woken;
END $$;

-- Leases endpoints that have events to deliver. Healthy endpoints come before failing ones, and within each group, those that have waited longest
-- come first. `p_full` are the workspaces that have reached the maximum number of endpoints in progress. `p_failing_max` limits the number of failing
-- endpoints, so that responsive endpoints never wait for unresponsive ones. `p_running` are the endpoints that this engine is serving. Any other
-- endpoint leased to this engine was interrupted by a restart of the engine or of the database, and continues immediately.
DROP FUNCTION IF EXISTS fairpost.take_webhooks(text, integer, integer, integer, text[], double precision, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.take_webhooks(p_engine text, p_max integer, p_failing_max integer, p_each_max integer, p_full text[], p_running bigint[], p_lease_s double precision, p_now timestamptz DEFAULT NULL)
RETURNS SETOF fairpost.webhooks
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    RETURN QUERY
    WITH due AS (
        SELECT w.id, w.failing_since IS NOT NULL AS is_failing, w.served_at, coalesce(w.workspace, '') AS whose FROM fairpost.webhooks w
        WHERE w.paused_at IS NULL AND w.disabled_at IS NULL AND (w.leased_until IS NULL OR w.leased_until <= t OR w.leased_by = p_engine) AND w.id <> ALL (p_running)
          AND (w.next_at IS NULL OR w.next_at <= t)
          AND coalesce(w.workspace, '') <> ALL (p_full)
          AND (w.is_behind OR EXISTS (SELECT FROM fairpost.webhook_pending p WHERE p.webhook_id = w.id AND (p.next_at <= t OR w.failing_since IS NOT NULL)))
    ), ranked AS (
        SELECT d.*, row_number() OVER (PARTITION BY d.whose ORDER BY d.is_failing, d.served_at NULLS FIRST, d.id) AS of_whose,
            row_number() OVER (PARTITION BY d.is_failing ORDER BY d.served_at NULLS FIRST, d.id) AS of_kind FROM due d
    ), chosen AS (
        SELECT w.id FROM fairpost.webhooks w JOIN ranked r USING (id)
        WHERE r.of_whose <= p_each_max AND (NOT r.is_failing OR r.of_kind <= p_failing_max)
          AND w.paused_at IS NULL AND w.disabled_at IS NULL AND (w.leased_until IS NULL OR w.leased_until <= t OR w.leased_by = p_engine)
        ORDER BY r.is_failing, r.served_at NULLS FIRST, r.id LIMIT p_max
        FOR UPDATE OF w SKIP LOCKED
    )
    UPDATE fairpost.webhooks w SET leased_by = p_engine, leased_until = t + make_interval(secs => p_lease_s), epoch = w.epoch + 1, served_at = t
    FROM chosen c WHERE c.id = w.id RETURNING w.*;
END $$;

-- Returns the pending events of an endpoint that are due, in order. An event is omitted as long as an earlier event in its lane is not due. With
-- `p_all`, returns the first event of each lane, whether or not it is due, ordered by number of attempts, fewest first. A row without an id
-- represents an event that was dropped in the meantime.
CREATE OR REPLACE FUNCTION fairpost.pending_events(p_webhook bigint, p_all boolean, p_max integer, p_now timestamptz DEFAULT NULL) RETURNS TABLE (
    turn bigint, event_id bigint, attempts integer, since timestamptz, cursor text, id bigint, at timestamptz, kind text, workspace text, email_id bigint, account text, campaign text, subject text,
    address text, recipients text[], type text, tags jsonb, metadata jsonb, reason text, params jsonb
)
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT p.turn, p.event_id, p.attempts, p.since, p.turn || '.' || p.event_id, e.id, e.at, e.kind, e.workspace, e.email_id, e.account, e.campaign, e.subject, e.address, e.recipients, e.type, e.tags, e.metadata, e.reason, e.params
    FROM (SELECT * FROM fairpost.webhook_pending p WHERE p.webhook_id = p_webhook AND (p_all OR p.next_at <= coalesce(p_now, clock_timestamp())) AND NOT EXISTS (
              SELECT FROM fairpost.webhook_pending q WHERE q.webhook_id = p_webhook AND q.lane = p.lane AND (q.turn, q.event_id) < (p.turn, p.event_id)
              AND (p_all OR q.next_at > coalesce(p_now, clock_timestamp())))
          ORDER BY CASE WHEN p_all THEN p.attempts END, p.turn, p.event_id LIMIT p_max) p
    LEFT JOIN LATERAL (
        SELECT e.* FROM fairpost.events_after(p.turn || '.' || p.event_id - 1, 1, p.workspace) e
        WHERE e.id = p.event_id AND (p.turn, p.event_id) > (SELECT d.turn, d.id FROM fairpost.events_dropped d)) e ON true
    ORDER BY p.turn, p.event_id
$$;

-- Ends a turn: writes the log, the pending events and the state of the endpoint, and returns the endpoint. Returns and writes nothing if the endpoint
-- is leased to another engine. `p_booked`: {"url", "failed_before", "cursor", "is_end", "log": [...], "done": [[turn, event]], "pending": [...],
-- "is_delivered", "is_disabled", "failing_since", "failures", "next_at", "reason", "params", "kept_s": the lease continues}. If an endpoint was
-- resumed or given a different URL during the turn, the turn's results neither disable nor delay it.
DROP FUNCTION IF EXISTS fairpost.book_webhook(bigint, bigint, jsonb, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.book_webhook(p_id bigint, p_epoch bigint, p_booked jsonb, p_now timestamptz DEFAULT NULL) RETURNS SETOF fairpost.webhooks
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    hook fairpost.webhooks;
    known bigint;
BEGIN
    IF (p_booked ->> 'is_end')::boolean THEN
        SELECT r.turn INTO known FROM fairpost.webhook_reader r FOR SHARE;   -- locked before the endpoint, as in wake_webhooks
    END IF;
    SELECT * INTO hook FROM fairpost.webhooks w WHERE w.id = p_id AND w.epoch = p_epoch FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF (hook.url, hook.failures) IS DISTINCT FROM (p_booked ->> 'url', (p_booked ->> 'failed_before')::integer) THEN
        p_booked := p_booked || jsonb_build_object(
            'failing_since', CASE WHEN (p_booked ->> 'failing_since') IS NOT NULL THEN coalesce(hook.failing_since, t) END, 'failures', 0, 'next_at', NULL, 'is_disabled', false);
    END IF;
    INSERT INTO fairpost.webhook_deliveries (webhook_id, workspace, at, message_id, kind, cursor, email_id, attempt, status, reason, params, duration_ms, answer)
    SELECT p_id, hook.workspace, l.at, l.message_id, l.kind, l.cursor, l.email_id, l.attempt, l.status, l.reason, l.params, l.duration_ms, l.answer
    FROM jsonb_to_recordset(p_booked -> 'log') l(at timestamptz, message_id text, kind text, cursor text, email_id bigint, attempt integer, status integer, reason text, params jsonb, duration_ms integer, answer text);
    IF p_booked -> 'done' <> '[]' THEN
        DELETE FROM fairpost.webhook_pending p USING jsonb_array_elements(p_booked -> 'done') d
        WHERE p.webhook_id = p_id AND p.turn = (d ->> 0)::bigint AND p.event_id = (d ->> 1)::bigint;
    END IF;
    IF p_booked -> 'pending' <> '[]' THEN
        INSERT INTO fairpost.webhook_pending AS p (webhook_id, turn, event_id, workspace, lane, attempts, since, next_at)
        SELECT p_id, l.turn, l.event_id, hook.workspace, l.lane, l.attempts, coalesce(l.since, t), l.next_at
        FROM jsonb_to_recordset(p_booked -> 'pending') l(turn bigint, event_id bigint, lane text, attempts integer, since timestamptz, next_at timestamptz)
        ON CONFLICT (webhook_id, turn, event_id) DO UPDATE SET attempts = EXCLUDED.attempts, next_at = EXCLUDED.next_at;
        -- Events that were not read in this turn also wait for earlier ones. Otherwise, the endpoint would be leased repeatedly without need.
        UPDATE fairpost.webhook_pending p SET next_at = l.next_at
        FROM (SELECT l.lane, max(l.next_at) AS next_at FROM jsonb_to_recordset(p_booked -> 'pending') l(lane text, next_at timestamptz) GROUP BY l.lane) l
        WHERE p.webhook_id = p_id AND p.lane = l.lane AND p.next_at < l.next_at;
    END IF;
    IF hook.failing_since IS NOT NULL AND (p_booked ->> 'is_delivered')::boolean THEN   -- the endpoint works again
        UPDATE fairpost.webhook_pending p SET next_at = least(p.next_at, t), since = t WHERE p.webhook_id = p_id;
    END IF;
    RETURN QUERY UPDATE fairpost.webhooks w SET
        cursor = p_booked ->> 'cursor',
        is_behind = NOT ((p_booked ->> 'is_end')::boolean AND split_part(p_booked ->> 'cursor', '.', 1)::bigint >= known),
        failing_since = (p_booked ->> 'failing_since')::timestamptz, failures = (p_booked ->> 'failures')::integer, next_at = (p_booked ->> 'next_at')::timestamptz,
        reason = p_booked ->> 'reason', params = nullif(p_booked -> 'params', 'null'),
        delivered_at = CASE WHEN (p_booked ->> 'is_delivered')::boolean THEN t ELSE w.delivered_at END,
        disabled_at = CASE WHEN (p_booked ->> 'is_disabled')::boolean THEN t END,
        leased_until = CASE WHEN w.paused_at IS NULL THEN t + make_interval(secs => (p_booked ->> 'kept_s')::double precision) END
    WHERE w.id = p_id RETURNING w.*;
END $$;

-- Returns a cursor that precedes all events after `p_at`.
CREATE OR REPLACE FUNCTION fairpost.events_cursor_at(p_at timestamptz) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
    SELECT coalesce(
        (SELECT CASE WHEN t.turn > d.turn THEN t.turn - 1 || '.' || (2 ^ 53)::bigint ELSE d.turn || '.' || d.id END
         FROM fairpost.event_turns t, fairpost.events_dropped d WHERE t.last_at >= p_at AND t.n > 0 AND t.turn >= d.turn ORDER BY t.turn LIMIT 1),
        fairpost.events_end())
$$;

-- `p_keys` are the vault keys that were in use when the secret was sealed. Earlier secrets remain valid for `p_overlap_s`.
CREATE OR REPLACE FUNCTION fairpost.add_webhook_secret(p_id bigint, p_webhook bigint, p_workspace text, p_secret text, p_keys text[], p_overlap_s double precision, p_now timestamptz DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    PERFORM fairpost.expect_keys(p_keys);
    IF NOT EXISTS (SELECT FROM fairpost.webhooks w WHERE w.id = p_webhook AND w.workspace IS NOT DISTINCT FROM p_workspace) THEN
        RAISE EXCEPTION 'this is not in your workspace' USING ERRCODE = 'FP004';
    END IF;
    DELETE FROM fairpost.webhook_secrets s WHERE s.webhook_id = p_webhook AND s.expires_at IS NOT NULL;   -- at most two
    UPDATE fairpost.webhook_secrets s SET expires_at = t + make_interval(secs => p_overlap_s) WHERE s.webhook_id = p_webhook;
    INSERT INTO fairpost.webhook_secrets (id, webhook_id, workspace, secret, created_at) OVERRIDING SYSTEM VALUE VALUES (p_id, p_webhook, p_workspace, p_secret, t);
END $$;

CREATE OR REPLACE FUNCTION fairpost.next_webhook_secret_id() RETURNS bigint
LANGUAGE sql SET search_path = fairpost, pg_catalog, pg_temp AS $$
    SELECT nextval(pg_get_serial_sequence('fairpost.webhook_secrets', 'id'))
$$;

-- Deletes old log entries, a limited number at a time. Returns the number of entries deleted.
CREATE OR REPLACE FUNCTION fairpost.drop_webhook_log(p_before timestamptz, p_max integer) RETURNS integer
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    n integer;
BEGIN
    DELETE FROM fairpost.webhook_deliveries d USING (
        SELECT o.id FROM (SELECT o.id, o.at FROM fairpost.webhook_deliveries o ORDER BY o.id LIMIT p_max) o WHERE o.at < p_before) o WHERE o.id = d.id;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;
