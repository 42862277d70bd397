-- Enqueues e-mails in the caller's transaction. A call waits for another transaction only if both use the same idempotency key, or if both enqueue
-- for the same user or workspace and a limit applies.

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

-- Returns the envelope addresses. A recipient that is listed twice receives one copy.
CREATE OR REPLACE FUNCTION fairpost.addresses_of(recipients jsonb) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN ARRAY(SELECT min(r.value ->> 'address') FROM jsonb_array_elements(recipients) WITH ORDINALITY r
                 GROUP BY fairpost.normalize_address(r.value ->> 'address') ORDER BY min(r.ordinality));
END $$;

-- Enqueues many e-mails and returns a result for each, in the order given: the e-mail's id and whether it is new, or its first problem. An invalid
-- e-mail does not affect the others. For a known idempotency key, returns the id of the first e-mail and new = false. The limits are for services
-- that submit their users' e-mails. `p_daily_max` limits the e-mails of one user in 24 hours, `p_waiting_max` limits the e-mails of one user in the
-- queue, and `p_workspace_max` limits the e-mails of the workspace in 24 hours. `p_fingerprints` contains a fingerprint for each e-mail. A known key
-- with a different fingerprint is an error.
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
    forbidden jsonb;   -- problems that concern this login, as {"ord": complaint}
    is_limited CONSTANT boolean := p_daily_max IS NOT NULL OR p_waiting_max IS NOT NULL OR p_workspace_max IS NOT NULL
        OR EXISTS (SELECT FROM fairpost.senders s WHERE s.daily_max IS NOT NULL OR s.waiting_max IS NOT NULL);
    objects jsonb;     -- the e-mails, with an empty object for each element that is not an object
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

    objects := CASE WHEN emails @? 'strict $[*] ? (@.type() <> "object")'
        THEN (SELECT jsonb_agg(CASE jsonb_typeof(e.value) WHEN 'object' THEN e.value ELSE '{}' END ORDER BY e.ordinality) FROM jsonb_array_elements(emails) WITH ORDINALITY e)
        ELSE emails END;
    -- Each level adds columns to the level below. OFFSET 0 prevents the planner from computing a column again for each use. Only the last level is
    -- stored, without the bodies, and all inserts read from it. `rare` is the whole e-mail if it is not plain.
    WITH read AS MATERIALIZED (
        SELECT d.*, coalesce(d.shared_id, d.id) AS content_id, coalesce(split_part(d.sender ->> 'address', '@', 2), '') AS domain,
            fairpost.flow_of(d.route, d.class, d.workspace, coalesce(split_part(d.sender ->> 'address', '@', 2), ''), d.user_name, d.stream) AS flow,
            CASE WHEN d.error IS NULL THEN fairpost.caller_key_hash(d.workspace, d.idempotency_key) END AS key_hash,
            CASE WHEN d.rare IS NULL THEN ARRAY[d.recipient] ELSE fairpost.addresses_of(d.recipients) END AS addresses
        FROM (
            SELECT s.ord, s.error, s.rare, CASE WHEN s.error IS NULL THEN fairpost.new_id() END AS id, s."to" AS recipient, s.on_doubt, s.idempotency_key,
                coalesce(s.workspace, 'default') AS workspace, fairpost.normalize_user(coalesce(s."user", '')) AS user_name, coalesce(s.stream, '') AS stream,
                coalesce('@' || s.account, s.pool, 'default') AS route,
                CASE WHEN s.error IS NULL THEN coalesce(s.class, CASE WHEN coalesce(s.stream, '') = '' THEN 'urgent' ELSE 'bulk' END)::fairpost.email_class END AS class,
                CASE WHEN s.error IS NULL THEN coalesce(s.due_at::timestamptz, t) END AS due_at,
                CASE WHEN s.error IS NULL THEN s.shared_id::bigint END AS shared_id,
                CASE WHEN s.rare IS NULL THEN ('{"address": "' || s."from" || '"}')::jsonb
                     WHEN s.error IS NULL AND s."from" IS NOT NULL THEN fairpost.parse_sender(s.rare -> 'from') END AS sender,
                CASE WHEN s.rare IS NULL THEN ('[{"kind": "to", "address": "' || s."to" || '"}]')::jsonb
                     WHEN s.error IS NULL THEN fairpost.recipients_of(s.rare) END AS recipients
            FROM (
                SELECT c.*, coalesce(forbidden -> c.ord::text, CASE WHEN c.rare IS NOT NULL THEN fairpost.check_email(c.rare, t) END, too_many -> c.ord::text) AS error
                FROM (
                    SELECT i.ord::integer AS ord, i."to", i."from", i.workspace, i."user", i.stream, i.class, i.pool, i.account, i.due_at, i.on_doubt, i.idempotency_key,
                        CASE WHEN shared IS NOT NULL THEN i.e ->> 'content_id' END AS shared_id,
                        CASE WHEN fairpost.is_plain(i.e, ROW(i."to", i."from", i.subject, i.text, i.html, i.workspace, i."user", i.stream, i.class, i.pool, i.account,
                                                             i.due_at, i.on_doubt, i.idempotency_key)::fairpost.plain_fields, shared) IS NOT TRUE THEN i.e END AS rare
                    FROM ROWS FROM (jsonb_array_elements(emails), jsonb_populate_recordset(NULL::fairpost.plain_fields, objects)) WITH ORDINALITY
                        AS i(e, "to", "from", subject, text, html, workspace, "user", stream, class, pool, account, due_at, on_doubt, idempotency_key, ord)
                    OFFSET 0) c OFFSET 0) s OFFSET 0) d
    ), fresh AS (
        -- Inserted in key order, so that two batches with the same keys wait for each other instead of deadlocking.
        INSERT INTO fairpost.idempotency_keys AS k (key_hash, email_id)
        SELECT r.key_hash, r.id FROM read r WHERE r.key_hash IS NOT NULL ORDER BY r.key_hash, r.ord
        ON CONFLICT DO NOTHING RETURNING k.email_id
    ), all_fresh AS MATERIALIZED (   -- the usual case, which needs no list of new e-mails
        SELECT (SELECT count(*) FROM fresh) = (SELECT count(r.key_hash) FROM read r) AS it
    ), new AS NOT MATERIALIZED (
        -- uses IN instead of a join, because the planner cannot estimate the length of the list, and a nested loop over a thousand keys takes a
        -- million steps
        SELECT r.* FROM read r WHERE r.error IS NULL AND (r.key_hash IS NULL OR (SELECT a.it FROM all_fresh a) OR r.id IN (SELECT f.email_id FROM fresh f))
    ), content AS (
        INSERT INTO fairpost.contents (id, subject, text_body, html_body, reply_to, headers, created_at)
        SELECT n.id, emails -> (n.ord - 1) ->> 'subject', emails -> (n.ord - 1) ->> 'text', emails -> (n.ord - 1) ->> 'html', CASE WHEN n.rare ->> 'reply_to' IS NOT NULL THEN fairpost.parse_address(n.rare -> 'reply_to') END,
               nullif(n.rare -> 'headers', 'null'), t
        FROM new n WHERE n.content_id = n.id
    ), queued AS (
        INSERT INTO fairpost.queue (id, flow, due_at, attempts_max, expires_at, created_at, content_id, class, on_doubt,
            route, workspace, domain, user_name, stream, sender, recipients, addresses, fields, idempotency_key, follows)
        SELECT n.id, n.flow, n.due_at, coalesce((n.rare ->> 'attempts_max')::smallint, CASE n.class WHEN 'urgent' THEN 5 ELSE 4 END),
            (n.rare ->> 'expires_at')::timestamptz, t, n.content_id, n.class,
            coalesce(n.on_doubt, CASE n.class WHEN 'urgent' THEN 'resend' ELSE 'hold' END)::fairpost.doubt_policy,
            n.route, n.workspace, n.domain, n.user_name, n.stream, n.sender, n.recipients, n.addresses,
            nullif(n.rare -> 'fields', 'null'), n.idempotency_key, (n.rare ->> 'follows')::bigint
        FROM new n
    ), noted AS (
        -- grouped by the hour in which an e-mail counts towards its sender's volume
        INSERT INTO fairpost.arrivals (route, class, workspace, domain, user_name, stream, flow, n, fresh, due_at, id)
        SELECT n.route, n.class, n.workspace, n.domain, n.user_name, n.stream, n.flow, count(*), count(*), min(n.due_at), min(n.id)
        FROM new n GROUP BY 1, 2, 3, 4, 5, 6, 7, fairpost.hour_of(greatest(n.due_at, t))
    )
    SELECT array_agg(r.ord), array_agg(r.id), array_agg(r.key_hash), array_agg(r.error), array_agg(r.error IS NULL AND (r.key_hash IS NULL OR (SELECT a.it FROM all_fresh a) OR r.id IN (SELECT f.email_id FROM fresh f))),
        bool_or(r.rare ?| '{type,tags,metadata}')
    INTO ords, ids, hashes, errors, news, has_labels
    FROM read r;

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
        -- A separate statement, because it must see the commit of the transaction that held the key while this one was waiting.
        RETURN QUERY
        SELECT r.ord, CASE WHEN r.new THEN r.id ELSE k.email_id END, r.new,
            CASE WHEN (SELECT f.fingerprint FROM fairpost.request_fingerprints f WHERE NOT r.new AND f.key_hash = r.key_hash) <> p_fingerprints[r.ord] THEN fairpost.complaint('idempotency_key', 'was used before, for another e-mail') || '{"code": "key_reused"}' ELSE r.error END
        FROM unnest(ords, ids, hashes, errors, news) AS r(ord, id, key_hash, error, new)
        LEFT JOIN LATERAL (SELECT k.email_id FROM fairpost.idempotency_keys k WHERE NOT r.new AND k.key_hash = r.key_hash OFFSET 0) k ON true
        ORDER BY r.ord;
    END IF;
END $$;

-- Enqueues one e-mail. An invalid e-mail raises an error that names the field.
CREATE OR REPLACE FUNCTION fairpost.enqueue(email jsonb, p_now timestamptz DEFAULT NULL, OUT id bigint, OUT new boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    result record;
BEGIN
    id := (fairpost.enqueue_plain(email, p_now)).id;
    IF id IS NOT NULL THEN
        new := true;
        RETURN;
    END IF;
    SELECT * INTO result FROM fairpost.enqueue_many(jsonb_build_array(email), p_now);
    IF result.error IS NOT NULL THEN
        RAISE EXCEPTION '%: %', coalesce(nullif(result.error ->> 'field', ''), 'email'), result.error ->> 'message'
            USING ERRCODE = 'FP001', DETAIL = result.error::text, HINT = 'Nothing was written.';
    END IF;
    id := result.id;
    new := result.new;
END $$;

-- Stores content that many e-mails of a workspace share: subject, text, html, headers, attachments, reply_to. Content without a workspace belongs to
-- the operator, who can use it for any workspace. Returns the content_id.
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
