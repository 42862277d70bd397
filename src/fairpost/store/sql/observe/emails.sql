-- Reads individual e-mails, whether they are in the queue or in history.

-- Splits each requested state in two, for e-mails that have been tried and e-mails that have not: `ready` becomes `ready:new` and `ready:retry`.
CREATE OR REPLACE FUNCTION fairpost.both_kinds(p_states text[]) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY(SELECT s FROM unnest(p_states) s WHERE s LIKE '%:%' UNION SELECT s || k FROM unnest(p_states) s, unnest('{:new,:retry}'::text[]) k WHERE s NOT LIKE '%:%')
$$;

CREATE OR REPLACE FUNCTION fairpost.kind_of(p_state text, p_attempts integer) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_state || CASE WHEN p_attempts > 0 THEN ':retry' ELSE ':new' END
$$;

-- Returns one page of a workspace's e-mail ids, newest first, below the given id. Each statement reads one index backwards and stops at the limit.
-- The index is normally the one on (workspace, id), but emails_not_sent is used if sent e-mails are not requested, and queue_held is used for claimed
-- e-mails. History has a partition for each month, and planning a query over all of them takes ten times as long as reading a page. The plans are
-- therefore kept, and each statement is written so that one plan suits all parameters.
CREATE OR REPLACE FUNCTION fairpost.newest_of(p_workspace text, p_states text[], p_below bigint, p_max integer, p_now timestamptz) RETURNS bigint[]
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    kinds CONSTANT text[] := fairpost.both_kinds(p_states);
    ready CONSTANT boolean := kinds && '{ready:new,ready:retry}';
    scheduled CONSTANT boolean := kinds && '{scheduled:new,scheduled:retry}';
    stored CONSTANT fairpost.email_state[] := ARRAY(SELECT DISTINCT split_part(k, ':', 1)::fairpost.email_state FROM unnest(kinds) k WHERE split_part(k, ':', 1) NOT IN ('ready', 'scheduled'));
    found bigint[] := '{}';
BEGIN
    IF p_states IS NULL OR 'sent' = ANY (stored) THEN
        found := ARRAY(SELECT e.id FROM fairpost.emails e WHERE e.workspace = p_workspace AND e.id < p_below AND (p_states IS NULL OR e.state = ANY (stored))
                       ORDER BY e.id DESC LIMIT p_max);
    ELSIF stored && '{failed,bounced,suppressed,cancelled}' THEN
        found := ARRAY(SELECT n.id FROM unnest(stored) s(state), LATERAL (
                           SELECT e.id FROM fairpost.emails e WHERE e.workspace = p_workspace AND e.state <> 'sent' AND e.state = s.state AND e.id < p_below
                           ORDER BY e.id DESC LIMIT p_max) n);
    END IF;
    IF p_states IS NULL THEN
        found := found || ARRAY(SELECT q.id FROM fairpost.queue q WHERE q.workspace = p_workspace AND q.id < p_below ORDER BY q.id DESC LIMIT p_max);
    END IF;
    IF ready OR scheduled THEN
        found := found || ARRAY(SELECT q.id FROM fairpost.queue q
                                WHERE q.workspace = p_workspace AND q.id < p_below AND q.waiting AND (ready AND q.due_at <= p_now OR scheduled AND q.due_at > p_now)
                                AND fairpost.kind_of(CASE WHEN q.due_at <= p_now THEN 'ready' ELSE 'scheduled' END, q.attempts) = ANY (kinds)
                                ORDER BY q.id DESC LIMIT p_max);
    END IF;
    IF stored && '{claimed,sending,in_doubt}' THEN
        found := found || ARRAY(WITH held AS MATERIALIZED (SELECT q.id, q.state, q.workspace, q.attempts FROM fairpost.queue q WHERE NOT q.waiting)
                                SELECT h.id FROM held h WHERE h.workspace = p_workspace AND fairpost.kind_of(h.state::text, h.attempts) = ANY (kinds) AND h.id < p_below ORDER BY h.id DESC LIMIT p_max);
    END IF;
    RETURN ARRAY(SELECT n FROM unnest(found) n ORDER BY n DESC LIMIT p_max);
END $$;

-- Does the same for all workspaces, on behalf of the operator, using the primary keys.
CREATE OR REPLACE FUNCTION fairpost.newest_of_all(p_states text[], p_below bigint, p_max integer, p_now timestamptz) RETURNS bigint[]
LANGUAGE plpgsql STABLE SET jit = off SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    kinds CONSTANT text[] := fairpost.both_kinds(p_states);
    ready CONSTANT boolean := p_states IS NULL OR kinds && '{ready:new,ready:retry}';
    scheduled CONSTANT boolean := p_states IS NULL OR kinds && '{scheduled:new,scheduled:retry}';
    stored CONSTANT fairpost.email_state[] := coalesce(
        ARRAY(SELECT DISTINCT split_part(k, ':', 1)::fairpost.email_state FROM unnest(kinds) k WHERE split_part(k, ':', 1) NOT IN ('ready', 'scheduled')), '{}');
    everything CONSTANT boolean := p_states IS NULL;
    common CONSTANT boolean := p_states IS NULL OR 'sent' = ANY (p_states);
BEGIN
    RETURN ARRAY(
        WITH held AS MATERIALIZED (
            SELECT q.id FROM fairpost.queue q WHERE NOT q.waiting AND (everything OR fairpost.kind_of(q.state::text, q.attempts) = ANY (kinds)) AND q.id < p_below
        )
        (SELECT q.id FROM fairpost.queue q WHERE q.waiting AND (ready AND q.due_at <= p_now OR scheduled AND q.due_at > p_now) AND q.id < p_below
         AND (everything OR fairpost.kind_of(CASE WHEN q.due_at <= p_now THEN 'ready' ELSE 'scheduled' END, q.attempts) = ANY (kinds))
         ORDER BY q.id DESC LIMIT p_max)
        UNION ALL
        (SELECT h.id FROM held h ORDER BY h.id DESC LIMIT p_max)
        UNION ALL
        (SELECT e.id FROM fairpost.emails e WHERE common AND (everything OR e.state = ANY (stored)) AND e.id < p_below ORDER BY e.id DESC LIMIT p_max)
        UNION ALL
        (SELECT e.id FROM fairpost.emails e WHERE NOT common AND e.state <> 'sent' AND e.state = ANY (stored) AND e.id < p_below ORDER BY e.id DESC LIMIT p_max)
        ORDER BY 1 DESC LIMIT p_max);
END $$;

-- Returns a page of the e-mails of one workspace or (null) of all, newest first, optionally only those before `p_before`. `p_states` (null means all)
-- are the states shown to users, which include `scheduled` and `ready` instead of the queue's `waiting`. With `p_ids`, returns these e-mails instead,
-- if they belong to the workspace.
DROP FUNCTION IF EXISTS fairpost.list_emails(text, text[], bigint, integer, timestamptz);
DROP FUNCTION IF EXISTS fairpost.list_emails(text, text[], bigint, integer, timestamptz, bigint[]);
CREATE OR REPLACE FUNCTION fairpost.list_emails(
    p_workspace text, p_states text[], p_before bigint, p_max integer, p_now timestamptz DEFAULT NULL, p_ids bigint[] DEFAULT NULL
) RETURNS TABLE (
    id bigint, state text, workspace text, user_name text, stream text, class text, route text, account text, recipients jsonb, subject text,
    created_at timestamptz, due_at timestamptz, finished_at timestamptz, attempts integer, attempts_max integer, reason text, reason_params jsonb, type text, tags jsonb
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    below CONSTANT bigint := coalesce(p_before, 9223372036854775807);
    ids bigint[];
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    ids := CASE WHEN p_ids IS NOT NULL THEN p_ids WHEN p_workspace IS NULL THEN fairpost.newest_of_all(p_states, below, p_max, t)
        ELSE fairpost.newest_of(p_workspace, p_states, below, p_max, t) END;
    RETURN QUERY
    SELECT x.id, CASE WHEN x.state <> 'waiting' THEN x.state::text WHEN x.due_at <= t THEN 'ready' ELSE 'scheduled' END,
           x.workspace, x.user_name, x.stream, x.class::text, x.route, a.name, x.recipients, c.subject,
           x.created_at, nullif(x.due_at, 'infinity'), x.finished_at, x.attempts::integer, x.attempts_max::integer, x.reason, x.reason_params, l.type, l.tags
    FROM (SELECT q.id, q.state, q.workspace, q.user_name, q.stream, q.class, q.route, q.account_id, q.recipients, q.content_id,
                 q.created_at, q.due_at, NULL::timestamptz AS finished_at, q.attempts, q.attempts_max, fairpost.code_in(q.last_error) AS reason, fairpost.params_in(q.last_error) AS reason_params
          FROM unnest(ids) n(id) CROSS JOIN LATERAL (SELECT * FROM fairpost.queue q WHERE q.id = n.id OFFSET 0) q
          UNION ALL
          SELECT e.id, e.state, e.workspace, e.user_name, e.stream, e.class, e.route, e.account_id, e.recipients, e.content_id,
                 e.created_at, e.due_at, e.finished_at, e.attempts, e.attempts_max, e.reason, e.reason_params
          FROM unnest(ids) n(id) CROSS JOIN LATERAL (SELECT * FROM fairpost.emails e WHERE e.id = n.id OFFSET 0) e) x
    LEFT JOIN LATERAL (SELECT c.subject FROM fairpost.contents c WHERE c.id = x.content_id OFFSET 0) c ON true
    LEFT JOIN LATERAL (SELECT a.name FROM fairpost.accounts a WHERE a.id = x.account_id OFFSET 0) a ON true
    LEFT JOIN LATERAL (SELECT * FROM fairpost.labels l WHERE l.email_id = x.id OFFSET 0) l ON true
    WHERE p_workspace IS NULL OR x.workspace = p_workspace
    ORDER BY x.id DESC;
END $$;

-- Returns everything about one e-mail except its attempts, or no row if it does not exist. The plan is kept, as for a page, because planning a query
-- over all months takes ten times as long as reading one e-mail.
DROP FUNCTION IF EXISTS fairpost.show_email(bigint, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.show_email(p_id bigint, p_now timestamptz DEFAULT NULL) RETURNS TABLE (
    id bigint, state text, reason text, reason_params jsonb, workspace text, domain text, user_name text, stream text, class text, route text, account text,
    created_at timestamptz, due_at timestamptz, expires_at timestamptz, claimed_at timestamptz, begun_at timestamptz, finished_at timestamptz,
    attempts integer, attempts_max integer, on_doubt text, idempotency_key text, message_id text, thread_id text,
    sender jsonb, recipients jsonb, remaining text[], fields jsonb, content_id bigint, subject text, text_body text, html_body text,
    reply_to jsonb, headers jsonb, attachments jsonb, type text, tags jsonb, metadata jsonb
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    PERFORM fairpost.require_own_email(p_id);
    RETURN QUERY
    SELECT x.id, CASE WHEN x.state <> 'waiting' THEN x.state::text WHEN x.due_at <= t THEN 'ready' ELSE 'scheduled' END,
           x.reason, x.reason_params, x.workspace, x.domain, x.user_name, x.stream, x.class::text, x.route, a.name,
           x.created_at, nullif(x.due_at, 'infinity'), x.expires_at, x.claimed_at, x.begun_at, x.finished_at,
           x.attempts::integer, x.attempts_max::integer, x.on_doubt::text, x.idempotency_key, x.message_id, x.thread_id,
           x.sender, x.recipients, x.addresses, x.fields, x.content_id, c.subject, c.text_body, c.html_body, c.reply_to, c.headers,
           (SELECT jsonb_agg(jsonb_build_object('filename', f.filename, 'content_type', f.content_type, 'inline_id', f.inline_id,
                                                'bytes', octet_length(f.data)) ORDER BY f.position)
            FROM fairpost.attachments f WHERE f.content_id = x.content_id), l.type, l.tags, l.metadata
    FROM (SELECT q.id, q.state, fairpost.code_in(q.last_error) AS reason, fairpost.params_in(q.last_error) AS reason_params, q.workspace, q.domain, q.user_name, q.stream, q.class, q.route, q.account_id,
                 q.created_at, q.due_at, q.expires_at, q.claimed_at, q.begun_at, NULL::timestamptz AS finished_at, q.attempts, q.attempts_max,
                 q.on_doubt, q.idempotency_key, NULL::text AS message_id, NULL::text AS thread_id, q.sender, q.recipients, q.addresses, q.fields, q.content_id
          FROM fairpost.queue q WHERE q.id = p_id
          UNION ALL
          SELECT e.id, e.state, e.reason, e.reason_params, e.workspace, e.domain, e.user_name, e.stream, e.class, e.route, e.account_id,
                 e.created_at, e.due_at, e.expires_at, NULL, NULL, e.finished_at, e.attempts, e.attempts_max,
                 e.on_doubt, e.idempotency_key, e.message_id, e.thread_id, e.sender, e.recipients, e.addresses, e.fields, e.content_id
          FROM fairpost.emails e WHERE e.id = p_id) x
    LEFT JOIN LATERAL (SELECT * FROM fairpost.contents c WHERE c.id = x.content_id OFFSET 0) c ON true
    LEFT JOIN LATERAL (SELECT a.name FROM fairpost.accounts a WHERE a.id = x.account_id OFFSET 0) a ON true
    LEFT JOIN LATERAL (SELECT * FROM fairpost.labels l WHERE l.email_id = x.id OFFSET 0) l ON true;
END $$;

-- Returns whether an e-mail's content belongs to a campaign and thus contains placeholders for the recipient's fields.
CREATE OR REPLACE FUNCTION fairpost.has_places(p_content bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN coalesce((SELECT c.is_template FROM fairpost.contents c WHERE c.id = p_content), false);
END $$;

-- Returns the images that the HTML of one e-mail embeds with cid:, in order, up to a total size.
CREATE OR REPLACE FUNCTION fairpost.pictures_of(p_id bigint, p_types text[], p_bytes_max integer) RETURNS TABLE (
    filename text, content_type text, inline_id text, data bytea
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    PERFORM fairpost.require_own_email(p_id);
    RETURN QUERY
    SELECT f.filename, f.content_type, f.inline_id, f.data
    FROM (SELECT a.*, sum(octet_length(a.data)) OVER (ORDER BY a.position) AS so_far
          FROM (SELECT q.content_id FROM fairpost.queue q WHERE q.id = p_id
                UNION ALL
                SELECT e.content_id FROM fairpost.emails e WHERE e.id = p_id) x
          JOIN fairpost.attachments a ON a.content_id = x.content_id
          WHERE a.inline_id IS NOT NULL AND a.content_type = ANY (p_types) AND octet_length(a.data) <= p_bytes_max) f
    WHERE f.so_far <= p_bytes_max
    ORDER BY f.position;
END $$;

-- Returns the attempts of one e-mail, in order.
CREATE OR REPLACE FUNCTION fairpost.attempts_of(p_id bigint) RETURNS TABLE (
    n integer, account text, begun_at timestamptz, ended_at timestamptz, outcome text, code integer, reply text, response_ms integer, recipients jsonb
)
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp AS $$
    SELECT t.n::integer, a.name, t.begun_at, t.ended_at, t.outcome, t.code::integer, t.reply, t.response_ms, t.recipients
    FROM fairpost.attempts t LEFT JOIN fairpost.accounts a ON a.id = t.account_id WHERE t.email_id = p_id ORDER BY t.n
$$;

-- Returns the sent e-mails in a conversation up to this one, newest first, at most twenty. Returns no rows if this e-mail was not sent. Each e-mail
-- is read by its key, as in load.sql, because engines call this function for every follow-up.
CREATE OR REPLACE FUNCTION fairpost.conversation(p_id bigint) RETURNS TABLE (message_id text, thread_id text, account_id bigint)
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    WITH RECURSIVE said AS (
        SELECT e.message_id, e.thread_id, e.account_id, e.follows, e.workspace, 1 AS place FROM fairpost.emails e
        WHERE e.id = p_id AND e.state = 'sent' AND e.message_id IS NOT NULL
        UNION ALL
        SELECT e.message_id, e.thread_id, e.account_id, e.follows, e.workspace, s.place + 1
        FROM said s CROSS JOIN LATERAL (SELECT * FROM fairpost.emails e WHERE e.id = s.follows OFFSET 0) e
        WHERE e.state = 'sent' AND e.message_id IS NOT NULL AND e.workspace = s.workspace AND s.place < 20)
    SELECT s.message_id, s.thread_id, s.account_id FROM said s ORDER BY s.place
$$;
