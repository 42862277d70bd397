-- Into the queue, inside the caller's transaction. Nothing here waits for another transaction, unless both
-- name the same idempotency key.

-- Reads one e-mail. What is wrong with it stands in `error`, and nothing else is filled then.
CREATE OR REPLACE FUNCTION fairpost.read_draft(e jsonb, place integer, p_now timestamptz) RETURNS fairpost.draft
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    d fairpost.draft;
    kind text;
    parsed jsonb;
BEGIN
    d.ord := place;
    IF jsonb_typeof(e) IS DISTINCT FROM 'object' THEN
        d.error := fairpost.complaint('', 'an e-mail must be an object');
        RETURN d;
    END IF;
    d.error := fairpost.check_words(e);
    IF d.error IS NOT NULL THEN
        RETURN d;
    END IF;

    IF jsonb_typeof(e -> 'to') = 'string' AND e ->> 'cc' IS NULL AND e ->> 'bcc' IS NULL THEN
        parsed := fairpost.parse_address(e -> 'to');  -- the usual case needs no loop
        IF parsed IS NULL THEN
            d.error := fairpost.complaint('to', format('%s is not an e-mail address', left((e -> 'to')::text, 300)));
            RETURN d;
        END IF;
        d.recipients := jsonb_build_array(parsed || '{"kind": "to"}');
        d.addresses := ARRAY[parsed ->> 'address'];
    ELSE
        d.recipients := '[]';
        FOREACH kind IN ARRAY ARRAY['to', 'cc', 'bcc'] LOOP
            CONTINUE WHEN e ->> kind IS NULL;
            SELECT r.recipients, r.wrong INTO d.recipients, d.error FROM fairpost.add_recipients(kind, e -> kind, d.recipients) r;
            IF d.error IS NOT NULL THEN
                RETURN d;
            END IF;
        END LOOP;
        -- whoever is named twice gets it once
        d.addresses := ARRAY(SELECT min(r.value ->> 'address') FROM jsonb_array_elements(d.recipients) WITH ORDINALITY r
                             GROUP BY fairpost.fold(r.value ->> 'address') ORDER BY min(r.ordinality));
    END IF;
    IF jsonb_array_length(d.recipients) = 0 THEN
        d.error := fairpost.complaint('to', 'at least one recipient is needed');
        RETURN d;
    END IF;
    IF e ->> 'from' IS NOT NULL THEN
        d.sender := fairpost.parse_address(e -> 'from');
        IF d.sender IS NULL THEN
            d.error := fairpost.complaint('from', format('%s is not an e-mail address', left((e -> 'from')::text, 300)));
            RETURN d;
        END IF;
    END IF;
    IF e ->> 'reply_to' IS NOT NULL AND fairpost.parse_address(e -> 'reply_to') IS NULL THEN
        d.error := fairpost.complaint('reply_to', format('%s is not an e-mail address', left((e -> 'reply_to')::text, 300)));
        RETURN d;
    END IF;
    d.error := fairpost.check_content(e);
    IF d.error IS NOT NULL THEN
        RETURN d;
    END IF;
    d.due_at := coalesce((e ->> 'due_at')::timestamptz, p_now);
    d.expires_at := (e ->> 'expires_at')::timestamptz;
    IF d.expires_at <= greatest(d.due_at, p_now) THEN
        d.error := fairpost.complaint('expires_at', 'must lie after due_at and after now');
        RETURN d;
    END IF;
    d.workspace := coalesce(e ->> 'workspace', 'default');
    d.user_name := coalesce(e ->> 'user', '');
    d.stream := coalesce(e ->> 'stream', '');
    d.domain := coalesce(split_part(d.sender ->> 'address', '@', 2), '');
    d.route := coalesce('@' || (e ->> 'account'), e ->> 'pool', 'default');
    d.class := coalesce(e ->> 'class', CASE WHEN d.stream = '' THEN 'urgent' ELSE 'bulk' END);
    d.on_doubt := coalesce(e ->> 'on_doubt', CASE d.class WHEN 'urgent' THEN 'resend' ELSE 'hold' END);
    d.attempts_max := coalesce((e ->> 'attempts_max')::smallint, CASE d.class WHEN 'urgent' THEN 5 ELSE 4 END);
    d.flow := fairpost.flow_of(d.route, d.class, d.workspace, d.domain, d.user_name, d.stream);
    d.id := fairpost.new_id();
    d.content_id := coalesce((e ->> 'content_id')::bigint, d.id);
    d.key_hash := fairpost.key_hash(d.workspace, e ->> 'idempotency_key');
    d.is_new := true;
    d.given := e;
    RETURN d;
END $$;

-- The first thing wrong with subject, bodies, headers and attachments, or null.
CREATE OR REPLACE FUNCTION fairpost.check_content(e jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wrong jsonb;
BEGIN
    IF e ->> 'content_id' IS NOT NULL THEN
        IF jsonb_strip_nulls(e) ?| ARRAY['subject', 'text', 'html', 'headers', 'attachments', 'reply_to'] THEN
            RETURN fairpost.complaint('content_id', 'brings its own subject, bodies, headers and attachments: give one or the other');
        ELSIF NOT EXISTS (SELECT FROM fairpost.contents c WHERE c.id = (e ->> 'content_id')::bigint) THEN
            RETURN fairpost.complaint('content_id', format('there is no content %s', e ->> 'content_id'));
        END IF;
        RETURN NULL;
    END IF;
    IF e ->> 'subject' IS NULL THEN
        RETURN fairpost.complaint('subject', 'is needed (it may be empty)');
    ELSIF e ->> 'text' IS NULL AND e ->> 'html' IS NULL THEN
        RETURN fairpost.complaint('text', 'text or html is needed (it may be empty)');
    END IF;
    IF e ->> 'headers' IS NOT NULL THEN
        wrong := fairpost.check_headers(e -> 'headers');
    END IF;
    IF wrong IS NULL AND e ->> 'attachments' IS NOT NULL THEN
        wrong := fairpost.check_attachments(e -> 'attachments');
    END IF;
    RETURN wrong;
END $$;

-- Writes the content of those drafts that bring their own.
CREATE OR REPLACE FUNCTION fairpost.store_contents(drafts fairpost.draft[], p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO fairpost.contents (id, subject, text_body, html_body, reply_to, headers, created_at)
    SELECT d.id, d.given ->> 'subject', d.given ->> 'text', d.given ->> 'html',
           fairpost.parse_address(nullif(d.given -> 'reply_to', 'null')), nullif(d.given -> 'headers', 'null'), p_now
    FROM unnest(drafts) d
    WHERE d.is_new AND d.content_id = d.id
    ORDER BY d.id;

    IF EXISTS (SELECT FROM unnest(drafts) d WHERE d.is_new AND d.given ? 'attachments') THEN
        INSERT INTO fairpost.attachments (content_id, position, filename, content_type, inline_id, data)
        SELECT d.id, a.place, a.item ->> 'filename', coalesce(a.item ->> 'content_type', 'application/octet-stream'),
               a.item ->> 'inline_id', decode(a.item ->> 'data', 'base64')
        FROM unnest(drafts) d
        CROSS JOIN LATERAL jsonb_array_elements(nullif(d.given -> 'attachments', 'null')) WITH ORDINALITY a(item, place)
        WHERE d.is_new AND d.content_id = d.id;
    END IF;
END $$;

-- Many e-mails, a result for each, in the order given: its id and whether it was new, or what is wrong with it.
-- A bad one does not keep the others out. A known idempotency key returns the first e-mail's id and new = false.
CREATE OR REPLACE FUNCTION fairpost.enqueue_many(emails jsonb, p_now timestamptz DEFAULT NULL)
RETURNS TABLE (ord integer, id bigint, new boolean, error jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    drafts fairpost.draft[];
    taken uuid[];
BEGIN
    IF emails IS NULL THEN
        RETURN;  -- jsonb_agg over no rows
    ELSIF jsonb_typeof(emails) <> 'array' OR jsonb_array_length(emails) > 10000 THEN
        RAISE EXCEPTION 'emails: must be a list of at most 10000 e-mails' USING ERRCODE = 'FP001';
    END IF;
    SELECT array_agg(fairpost.read_draft(e.value, e.ordinality::integer, t) ORDER BY e.ordinality) INTO drafts
    FROM jsonb_array_elements(emails) WITH ORDINALITY e;

    -- In the order of the keys, so that two bulks with the same keys queue up instead of deadlocking.
    IF EXISTS (SELECT FROM unnest(drafts) d WHERE d.key_hash IS NOT NULL) THEN
        WITH fresh AS (
            INSERT INTO fairpost.idempotency_keys AS k (key_hash, email_id)
            SELECT d.key_hash, d.id FROM unnest(drafts) d WHERE d.key_hash IS NOT NULL ORDER BY d.key_hash, d.ord
            ON CONFLICT DO NOTHING RETURNING k.email_id
        )
        SELECT array_agg((d.ord, d.error, d.given, coalesce(fresh.email_id, d.id), d.key_hash,
                          fresh.email_id IS NOT NULL OR d.key_hash IS NULL, d.content_id, d.flow, d.due_at, d.expires_at, d.attempts_max,
                          d.class, d.on_doubt, d.route, d.workspace, d.domain, d.user_name, d.stream, d.sender, d.recipients, d.addresses
                         )::fairpost.draft ORDER BY d.ord) INTO drafts
        FROM unnest(drafts) d LEFT JOIN fresh ON fresh.email_id = d.id;
    END IF;

    PERFORM fairpost.store_contents(drafts, t);

    INSERT INTO fairpost.queue (id, flow, due_at, attempts_max, expires_at, created_at, content_id, class, on_doubt,
        route, workspace, domain, user_name, stream, sender, recipients, addresses, fields, idempotency_key)
    SELECT d.id, d.flow, d.due_at, d.attempts_max, d.expires_at, t, d.content_id, d.class, d.on_doubt,
        d.route, d.workspace, d.domain, d.user_name, d.stream, d.sender, d.recipients, d.addresses,
        nullif(d.given -> 'fields', 'null'), d.given ->> 'idempotency_key'
    FROM unnest(drafts) d WHERE d.is_new AND d.error IS NULL ORDER BY d.id;

    INSERT INTO fairpost.arrivals (route, class, workspace, domain, user_name, stream, flow, n, due_at, id)
    SELECT d.route, d.class, d.workspace, d.domain, d.user_name, d.stream, d.flow, count(*), min(d.due_at), min(d.id)
    FROM unnest(drafts) d WHERE d.is_new AND d.error IS NULL GROUP BY 1, 2, 3, 4, 5, 6, 7;

    -- A statement of its own: it must see what the owner of a key committed while we waited for him.
    RETURN QUERY
    SELECT d.ord, CASE WHEN d.error IS NULL THEN CASE WHEN d.is_new THEN d.id ELSE k.email_id END END, d.is_new AND d.error IS NULL, d.error
    FROM unnest(drafts) d LEFT JOIN fairpost.idempotency_keys k ON NOT d.is_new AND k.key_hash = d.key_hash
    ORDER BY d.ord;
END $$;

-- One e-mail; a bad one is an error that names the field.
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

-- Content that many e-mails share: subject, text, html, headers, attachments, reply_to. Returns the content_id.
CREATE OR REPLACE FUNCTION fairpost.put_content(content jsonb, p_now timestamptz DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    d fairpost.draft;
BEGIN
    IF jsonb_typeof(content) IS DISTINCT FROM 'object'
        OR content - ARRAY['subject', 'text', 'html', 'headers', 'attachments', 'reply_to'] <> '{}' THEN
        d.error := fairpost.complaint('content', 'must be an object and may have subject, text, html, headers, attachments and reply_to only');
    ELSE
        d := fairpost.read_draft(content || '{"to": "nobody@localhost"}', 1, coalesce(p_now, clock_timestamp()));
    END IF;
    IF d.error IS NOT NULL THEN
        RAISE EXCEPTION '%: %', d.error ->> 'field', d.error ->> 'message' USING ERRCODE = 'FP001', DETAIL = d.error::text;
    END IF;
    PERFORM fairpost.store_contents(ARRAY[d], coalesce(p_now, clock_timestamp()));
    RETURN d.id;
END $$;
