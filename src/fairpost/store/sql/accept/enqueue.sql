-- Enqueueing, inside the caller's transaction. Nothing here waits for another transaction, unless both use the same idempotency key, or enqueue for
-- the same user or workspace that has a limit.

-- Returns all recipients of a checked e-mail, each marked with its kind.
CREATE OR REPLACE FUNCTION fairpost.recipients_of(e jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    recipients jsonb := '[]';
    kind text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['to', 'cc', 'bcc'] LOOP
        CONTINUE WHEN e ->> kind IS NULL;
        recipients := (SELECT r.recipients FROM fairpost.add_recipients(kind, e -> kind, recipients) r);
    END LOOP;
    RETURN recipients;
END $$;

-- Returns the envelope: a recipient named twice receives one copy.
CREATE OR REPLACE FUNCTION fairpost.addresses_of(recipients jsonb) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN ARRAY(SELECT min(r.value ->> 'address') FROM jsonb_array_elements(recipients) WITH ORDINALITY r
                 GROUP BY fairpost.normalize_address(r.value ->> 'address') ORDER BY min(r.ordinality));
END $$;

-- Enqueues many e-mails and returns a result for each, in the order given: its id and whether it is new, or what is wrong with it. A bad one does not
-- affect the others. A known idempotency key returns the first e-mail's id and new = false. `p_daily_max` and `p_waiting_max` are for services that
-- submit users' e-mails: how many one user may send in 24 hours and have waiting; `p_workspace_max` is how many a workspace may send in 24 hours.
-- `p_fingerprints` has one for each e-mail: a known key with a different fingerprint is an error.
DROP FUNCTION IF EXISTS fairpost.enqueue_many(jsonb, timestamptz);
DROP FUNCTION IF EXISTS fairpost.enqueue_many(jsonb, timestamptz, integer, integer);
CREATE OR REPLACE FUNCTION fairpost.enqueue_many(
    emails jsonb, p_now timestamptz DEFAULT NULL, p_daily_max integer DEFAULT NULL, p_waiting_max integer DEFAULT NULL,
    p_workspace_max integer DEFAULT NULL, p_fingerprints bigint[] DEFAULT NULL
)
RETURNS TABLE (ord integer, id bigint, new boolean, error jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET timezone = 'UTC' SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    spoken_for CONSTANT text[] := fairpost.spoken_for();
    t CONSTANT timestamptz := coalesce(CASE WHEN spoken_for IS NULL THEN p_now END, clock_timestamp());
    shared text[];
    too_many jsonb;
    forbidden jsonb;   -- for this login, as {"ord": complaint}
    is_limited CONSTANT boolean := p_daily_max IS NOT NULL OR p_waiting_max IS NOT NULL OR p_workspace_max IS NOT NULL
        OR EXISTS (SELECT FROM fairpost.senders s WHERE s.daily_max IS NOT NULL OR s.waiting_max IS NOT NULL);
    ords integer[]; ids bigint[]; hashes uuid[]; errors jsonb[]; news boolean[]; has_labels boolean;
BEGIN
    IF emails IS NULL THEN
        RETURN;  -- jsonb_agg over no rows
    ELSIF jsonb_typeof(emails) <> 'array' OR jsonb_array_length(emails) > 10000 THEN
        RAISE EXCEPTION 'emails: must be a list of at most 10000 e-mails' USING ERRCODE = 'FP001';
    END IF;
    IF fairpost.tenant() IS NOT NULL AND (emails @? '$[*].content_id' OR EXISTS (
        SELECT FROM jsonb_array_elements(emails) e WHERE coalesce(e ->> 'workspace', 'default') <> fairpost.tenant()
            OR fairpost.leads_to_another(fairpost.tenant(), coalesce('@' || (e ->> 'account'), e ->> 'pool', 'default')))) THEN
        RAISE EXCEPTION 'this is not in your workspace' USING ERRCODE = 'FP004';
    END IF;
    IF spoken_for IS NOT NULL THEN
        SELECT jsonb_agg(coalesce(c.email, e.value) ORDER BY e.ordinality), jsonb_object_agg(e.ordinality, c.wrong) FILTER (WHERE c.wrong IS NOT NULL)
        INTO emails, forbidden
        FROM jsonb_array_elements(emails) WITH ORDINALITY e, fairpost.check_application(spoken_for, e.value) c;
    END IF;
    IF emails @? '$[*].content_id' THEN
        forbidden := coalesce(forbidden, '{}') || fairpost.foreign_contents(emails, spoken_for IS NULL);
        shared := ARRAY(SELECT c.id::text FROM fairpost.contents c WHERE c.id = ANY (ARRAY(
            SELECT DISTINCT (e ->> 'content_id')::bigint FROM jsonb_array_elements(emails) e
            WHERE jsonb_typeof(e) = 'object' AND e ->> 'content_id' ~ '^[0-9]{1,18}$|^[1-8][0-9]{18}$')));
    END IF;
    IF is_limited THEN
        too_many := fairpost.too_many(emails, shared, p_daily_max, p_waiting_max, p_workspace_max, t);
    END IF;

    WITH seen AS MATERIALIZED (
        SELECT e.ordinality::integer AS ord, e.value AS e, fairpost.is_plain(e.value, shared) AS plain
        FROM jsonb_array_elements(emails) WITH ORDINALITY e
    ), judged AS MATERIALIZED (
        SELECT s.*, coalesce(forbidden -> s.ord::text, CASE WHEN NOT s.plain THEN fairpost.check_email(s.e, t) END, too_many -> s.ord::text) AS error FROM seen s
    ), read AS MATERIALIZED (
        SELECT j.ord, j.e, fairpost.new_id() AS id,
            coalesce(j.e ->> 'workspace', 'default') AS workspace, fairpost.normalize_user(coalesce(j.e ->> 'user', '')) AS user_name, coalesce(j.e ->> 'stream', '') AS stream,
            coalesce('@' || (j.e ->> 'account'), j.e ->> 'pool', 'default') AS route,
            coalesce(j.e ->> 'class', CASE WHEN coalesce(j.e ->> 'stream', '') = '' THEN 'urgent' ELSE 'bulk' END)::fairpost.email_class AS class,
            coalesce((j.e ->> 'due_at')::timestamptz, t) AS due_at,
            CASE WHEN j.plain THEN nullif(jsonb_build_object('address', j.e ->> 'from'), '{"address": null}')
                 WHEN j.e ->> 'from' IS NOT NULL THEN fairpost.parse_sender(j.e -> 'from') END AS sender,
            CASE WHEN j.plain THEN jsonb_build_array(jsonb_build_object('kind', 'to', 'address', j.e ->> 'to')) ELSE fairpost.recipients_of(j.e) END AS recipients,
            fairpost.caller_key_hash(coalesce(j.e ->> 'workspace', 'default'), j.e ->> 'idempotency_key') AS key_hash,
            j.plain
        FROM judged j WHERE j.error IS NULL
    ), draft AS MATERIALIZED (
        SELECT r.*, coalesce((r.e ->> 'content_id')::bigint, r.id) AS content_id, coalesce(split_part(r.sender ->> 'address', '@', 2), '') AS domain,
            fairpost.flow_of(r.route, r.class, r.workspace, coalesce(split_part(r.sender ->> 'address', '@', 2), ''), r.user_name, r.stream) AS flow,
            CASE WHEN r.plain THEN ARRAY[r.e ->> 'to'] ELSE fairpost.addresses_of(r.recipients) END AS addresses
        FROM read r
    ), fresh AS (
        -- In the order of the keys, so that two batches with the same keys wait for each other instead of deadlocking.
        INSERT INTO fairpost.idempotency_keys AS k (key_hash, email_id)
        SELECT d.key_hash, d.id FROM draft d WHERE d.key_hash IS NOT NULL ORDER BY d.key_hash, d.ord
        ON CONFLICT DO NOTHING RETURNING k.email_id
    ), new AS MATERIALIZED (
        -- IN rather than a join: the planner does not know how long the list is, and comparing a thousand one by one takes a million steps
        SELECT d.* FROM draft d WHERE d.key_hash IS NULL OR d.id IN (SELECT f.email_id FROM fresh f)
    ), content AS (
        INSERT INTO fairpost.contents (id, subject, text_body, html_body, reply_to, headers, created_at)
        SELECT n.id, n.e ->> 'subject', n.e ->> 'text', n.e ->> 'html', CASE WHEN n.e ->> 'reply_to' IS NOT NULL THEN fairpost.parse_address(n.e -> 'reply_to') END,
               nullif(n.e -> 'headers', 'null'), t
        FROM new n WHERE n.content_id = n.id
    ), queued AS (
        INSERT INTO fairpost.queue (id, flow, due_at, attempts_max, expires_at, created_at, content_id, class, on_doubt,
            route, workspace, domain, user_name, stream, sender, recipients, addresses, fields, idempotency_key, follows)
        SELECT n.id, n.flow, n.due_at, coalesce((n.e ->> 'attempts_max')::smallint, CASE n.class WHEN 'urgent' THEN 5 ELSE 4 END),
            (n.e ->> 'expires_at')::timestamptz, t, n.content_id, n.class,
            coalesce(n.e ->> 'on_doubt', CASE n.class WHEN 'urgent' THEN 'resend' ELSE 'hold' END)::fairpost.doubt_policy,
            n.route, n.workspace, n.domain, n.user_name, n.stream, n.sender, n.recipients, n.addresses,
            nullif(n.e -> 'fields', 'null'), n.e ->> 'idempotency_key', (n.e ->> 'follows')::bigint
        FROM new n
    ), noted AS (
        -- by the hour in which it counts towards its sender's volume
        INSERT INTO fairpost.arrivals (route, class, workspace, domain, user_name, stream, flow, n, fresh, due_at, id)
        SELECT n.route, n.class, n.workspace, n.domain, n.user_name, n.stream, n.flow, count(*), count(*), min(n.due_at), min(n.id)
        FROM new n GROUP BY 1, 2, 3, 4, 5, 6, 7, fairpost.hour_of(greatest(n.due_at, t))
    )
    SELECT array_agg(r.ord), array_agg(r.id), array_agg(r.key_hash), array_agg(r.error), array_agg(r.new), bool_or(r.labelled)
    INTO ords, ids, hashes, errors, news, has_labels
    FROM (SELECT d.ord, d.id, d.key_hash, NULL::jsonb AS error, d.id IN (SELECT n.id FROM new n) AS new, NOT d.plain AND d.e ?| '{type,tags,metadata}' AS labelled FROM draft d
          UNION ALL
          SELECT j.ord, NULL, NULL, j.error, false, false FROM judged j WHERE j.error IS NOT NULL) r;

    IF is_limited THEN
        PERFORM fairpost.count_submissions(emails, ords, news, p_daily_max, p_workspace_max, t);
    END IF;
    IF emails @? '$[*].attachments' THEN
        INSERT INTO fairpost.attachments (content_id, position, filename, content_type, inline_id, data)
        SELECT r.id, a.ordinality, a.value ->> 'filename', coalesce(a.value ->> 'content_type', 'application/octet-stream'),
               a.value ->> 'inline_id', decode(a.value ->> 'data', 'base64')
        FROM unnest(ords, ids, news) AS r(ord, id, new)
        CROSS JOIN LATERAL jsonb_array_elements(nullif(emails -> (r.ord - 1) -> 'attachments', 'null')) WITH ORDINALITY a
        WHERE r.new;
    END IF;

    IF has_labels THEN
        PERFORM fairpost.add_labels(array_agg(r.id), array_agg(coalesce(e.value ->> 'workspace', 'default')), array_agg(e.value))
        FROM unnest(ords, ids, news) AS r(ord, id, new) CROSS JOIN LATERAL (SELECT emails -> (r.ord - 1) AS value) e
        WHERE r.new AND e.value ?| '{type,tags,metadata}';
    END IF;

    IF p_fingerprints IS NOT NULL THEN
        INSERT INTO fairpost.request_fingerprints (key_hash, fingerprint)
        SELECT r.key_hash, p_fingerprints[r.ord] FROM unnest(ords, hashes, news) r(ord, key_hash, new)
        WHERE r.new AND r.key_hash IS NOT NULL AND p_fingerprints[r.ord] IS NOT NULL ORDER BY 1
        ON CONFLICT (key_hash) DO UPDATE SET fingerprint = excluded.fingerprint;   -- for a key that was freed
    END IF;

    PERFORM fairpost.wake_engines(emails);
    IF array_position(news, false) IS NULL THEN
        RETURN QUERY SELECT r.ord, r.id, true, NULL::jsonb FROM unnest(ords, ids) AS r(ord, id) ORDER BY r.ord;
    ELSE
        -- A separate statement, because it must see what the owner of a key committed while we were waiting.
        RETURN QUERY
        SELECT r.ord, CASE WHEN r.new THEN r.id ELSE k.email_id END, r.new,
            CASE WHEN (SELECT f.fingerprint FROM fairpost.request_fingerprints f WHERE NOT r.new AND f.key_hash = r.key_hash) <> p_fingerprints[r.ord] THEN fairpost.complaint('idempotency_key', 'was used before, for another e-mail') || '{"code": "key_reused"}' ELSE r.error END
        FROM unnest(ords, ids, hashes, errors, news) AS r(ord, id, key_hash, error, new)
        LEFT JOIN LATERAL (SELECT k.email_id FROM fairpost.idempotency_keys k WHERE NOT r.new AND k.key_hash = r.key_hash OFFSET 0) k ON true
        ORDER BY r.ord;
    END IF;
END $$;

-- Enqueues one e-mail. A bad one raises an error that names the field.
CREATE OR REPLACE FUNCTION fairpost.enqueue(email jsonb, p_now timestamptz DEFAULT NULL, OUT id bigint, OUT new boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    result record;
BEGIN
    SELECT * INTO result FROM fairpost.enqueue_many(jsonb_build_array(email), p_now);
    IF result.error IS NOT NULL THEN
        RAISE EXCEPTION '%: %', coalesce(nullif(result.error ->> 'field', ''), 'email'), result.error ->> 'message'
            USING ERRCODE = 'FP001', DETAIL = result.error::text, HINT = 'Nothing was written.';
    END IF;
    id := result.id;
    new := result.new;
END $$;

-- Stores content that many e-mails of a workspace share: subject, text, html, headers, attachments, reply_to. Without a workspace, it belongs to the
-- operator, for any workspace. Returns the content_id.
CREATE OR REPLACE FUNCTION fairpost.put_content(content jsonb, p_now timestamptz DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    spoken_for CONSTANT text[] := fairpost.spoken_for();
    t CONSTANT timestamptz := coalesce(CASE WHEN spoken_for IS NULL THEN p_now END, clock_timestamp());
    known CONSTANT text[] := '{workspace,subject,text,html,headers,attachments,reply_to}';
    whose CONSTANT text := coalesce(content ->> 'workspace', CASE WHEN spoken_for IS NOT NULL THEN fairpost.own_workspace(spoken_for) END);
    new_id bigint;
    wrong jsonb;
BEGIN
    IF jsonb_typeof(content) IS DISTINCT FROM 'object' OR content - known <> '{}' THEN
        wrong := fairpost.complaint('content', 'must be an object that has only workspace, subject, text, html, headers, attachments and reply_to');
    ELSIF whose <> ALL (spoken_for) OR whose <> fairpost.tenant() THEN
        wrong := fairpost.complaint('workspace', format('%s is not a workspace of this login', left(whose, 200)));
    ELSE
        wrong := fairpost.check_email(content || '{"to": "nobody@localhost"}', t);
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION '%: %', wrong ->> 'field', wrong ->> 'message' USING ERRCODE = 'FP001', DETAIL = wrong::text, HINT = 'Nothing was written.';
    END IF;
    INSERT INTO fairpost.contents (id, subject, text_body, html_body, reply_to, headers, created_at)
    VALUES (fairpost.new_id(), content ->> 'subject', content ->> 'text', content ->> 'html',
            CASE WHEN content ->> 'reply_to' IS NOT NULL THEN fairpost.parse_address(content -> 'reply_to') END, nullif(content -> 'headers', 'null'), t)
    RETURNING id INTO new_id;
    IF whose IS NOT NULL THEN
        INSERT INTO fairpost.shared_contents (content_id, workspace) VALUES (new_id, whose);
    END IF;
    INSERT INTO fairpost.attachments (content_id, position, filename, content_type, inline_id, data)
    SELECT new_id, a.ordinality, a.value ->> 'filename', coalesce(a.value ->> 'content_type', 'application/octet-stream'), a.value ->> 'inline_id',
           decode(a.value ->> 'data', 'base64')
    FROM jsonb_array_elements(nullif(content -> 'attachments', 'null')) WITH ORDINALITY a;
    RETURN new_id;
END $$;
