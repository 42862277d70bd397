-- Validates e-mails, with a clear message for invalid input. Every check is in this file, and all of them run before anything is written.

-- Parses one address: "ann@example.com", "Ann Lee <ann@example.com>" or {"address": …, "name": …}. The domain is lowercased. Returns
-- null if it is not an address.
CREATE OR REPLACE FUNCTION fairpost.parse_address(given jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    whole text;
    address text;
    local text;
    domain text;
    name text;
    parts text[];
BEGIN
    IF jsonb_typeof(given) = 'object' THEN
        IF given - ARRAY['address', 'name'] <> '{}' OR jsonb_typeof(given -> 'address') IS DISTINCT FROM 'string'
            OR coalesce(jsonb_typeof(given -> 'name'), 'null') NOT IN ('string', 'null') THEN
            RETURN NULL;
        END IF;
        address := given ->> 'address';
        name := nullif(given ->> 'name', '');
    ELSIF jsonb_typeof(given) = 'string' THEN
        whole := given #>> '{}';
        IF strpos(whole, '<') = 0 THEN
            address := whole;
        ELSE
            parts := regexp_match(whole, '^ *(?:"((?:[^"\\]|\\["\\])*)"|([^"<>]*?)) *<([^<>]*)> *$');
            IF parts IS NULL THEN
                RETURN NULL;
            END IF;
            address := parts[3];
            name := nullif(coalesce(regexp_replace(parts[1], '\\(.)', '\1', 'g'), btrim(parts[2])), '');
        END IF;
    ELSE
        RETURN NULL;
    END IF;
    local := split_part(address, '@', 1);
    domain := lower(lower(split_part(address, '@', 2) COLLATE "C") COLLATE "default");  -- ASCII is converted separately, because a database with a Turkish locale would turn I into ı
    IF local = '' OR domain = '' OR address <> local || '@' || substr(address, length(local) + 2) OR strpos(substr(address, length(local) + 2), '@') > 0
        OR octet_length(local) > 64 OR octet_length(address) > 254
        OR local ~ '[\x01- "(),:;<>\[\]\\\x7f-\xa0]|^[.]|[.][.]|[.]$'
        OR domain ~ '[\x01-,/:-@\[-`{-\xa0]|(^|[.])-|-([.]|$)|^[.]|[.][.]|[.]$'
        -- invisible characters: unusual spaces, zero-width characters, direction changes (the joiners U+200C and U+200D are part of names)
        OR address ~ '[\u00ad\u1680\u2000-\u200b\u200e\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]'
        OR strpos(domain, '.') = 0 AND domain <> 'localhost'
        OR length(domain) > 63 AND EXISTS (SELECT FROM unnest(string_to_array(domain, '.')) label WHERE length(label) > 63)
        OR name ~ '[\x01-\x1f\x7f-\x9f\u2028\u2029]' OR char_length(name) > 256 THEN
        RETURN NULL;
    END IF;
    address := local || '@' || domain;
    RETURN CASE WHEN name IS NULL THEN jsonb_build_object('address', address)
                ELSE jsonb_build_object('address', address, 'name', name) END;
END $$;

-- Parses From, which is either an address or {"name": …} alone. A name alone is combined with the account's address. Returns null if the value is
-- neither.
CREATE OR REPLACE FUNCTION fairpost.parse_sender(given jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF jsonb_typeof(given) = 'object' AND given ? 'name' AND NOT given ? 'address' AND given ->> 'name' <> '' THEN
        RETURN nullif(fairpost.parse_address(given || '{"address": "a@localhost"}') - 'address', '{}');
    END IF;
    RETURN fairpost.parse_address(given);
END $$;

-- Appends the addresses of one field to the recipients, each marked with its kind. `wrong` is the first entry that is not a valid address.
CREATE OR REPLACE FUNCTION fairpost.add_recipients(kind text, given jsonb, INOUT recipients jsonb, OUT wrong jsonb)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    item jsonb;
    parsed jsonb;
    place integer := 0;
BEGIN
    IF jsonb_typeof(given) <> 'array' THEN
        given := jsonb_build_array(given);
        place := NULL;
    END IF;
    IF jsonb_array_length(given) + jsonb_array_length(recipients) > 50 THEN
        wrong := fairpost.complaint(kind, 'an e-mail has at most 50 recipients');
        RETURN;
    END IF;
    FOR item IN SELECT jsonb_array_elements(given) LOOP
        parsed := fairpost.parse_address(item);
        IF parsed IS NULL THEN
            wrong := fairpost.no_address(concat(kind, '[' || place || ']'), item);
            RETURN;
        END IF;
        recipients := recipients || jsonb_build_array(parsed || jsonb_build_object('kind', kind));
        place := place + 1;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION fairpost.complaint(field text, message text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT jsonb_build_object('field', field, 'message', message)
$$;

-- Describes a value that parse_address could not parse or, for an object, the invalid part.
CREATE OR REPLACE FUNCTION fairpost.no_address(field text, given jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    unknown CONSTANT text := CASE jsonb_typeof(given) WHEN 'object' THEN (SELECT min(k) FROM jsonb_object_keys(given - ARRAY['address', 'name']) k) END;
BEGIN
    IF unknown IS NOT NULL THEN
        RETURN fairpost.complaint(field || '.' || left(unknown, 100), 'is not a known field');
    ELSIF jsonb_typeof(given) = 'object' AND fairpost.parse_address(given - 'name') IS NOT NULL THEN
        RETURN fairpost.complaint(field || '.name', 'must be at most 256 characters on one line');
    ELSIF jsonb_typeof(given) = 'object' THEN
        field := field || '.address';
        given := coalesce(given -> 'address', 'null');
    END IF;
    RETURN fairpost.complaint(field, format('%s is not an e-mail address', left(given::text, 300)));
END $$;

-- Returns the problem with a short string, or null if there is none.
CREATE OR REPLACE FUNCTION fairpost.check_word(field text, value jsonb, chars_max integer, may_be_empty boolean) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF jsonb_typeof(value) <> 'string' THEN
        RETURN fairpost.complaint(field, 'must be a string');
    ELSIF (value #>> '{}') ~ '[\x01-\x1f\x7f-\x9f\u2028\u2029]' THEN
        RETURN fairpost.complaint(field, 'must not contain line breaks or other control characters');
    ELSIF char_length(value #>> '{}') > chars_max THEN
        RETURN fairpost.complaint(field, format('must be at most %s characters long, got %s', chars_max, char_length(value #>> '{}')));
    ELSIF value = '""' AND NOT may_be_empty THEN
        RETURN fairpost.complaint(field, 'must not be empty');
    END IF;
    RETURN NULL;
END $$;

-- Returns the problem with a time, or null if there is none.
CREATE OR REPLACE FUNCTION fairpost.check_moment(field text, value jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    IF jsonb_typeof(value) <> 'string' OR (value #>> '{}') !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)$' THEN
        RETURN fairpost.complaint(field, 'must be a time with a time zone, such as 2030-01-31T09:00:00Z');
    END IF;
    -- A range that all programs support. Many fail on a time in the year 10000.
    IF (value #>> '{}')::timestamptz NOT BETWEEN '1970-01-01 00:00:00+00' AND '2200-01-01 00:00:00+00' THEN
        RETURN fairpost.complaint(field, 'must be between the years 1970 and 2200');
    END IF;
    RETURN NULL;
EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format OR invalid_time_zone_displacement_value THEN
    RETURN fairpost.complaint(field, format('is not a valid time: %s', value #>> '{}'));
END $$;

CREATE OR REPLACE FUNCTION fairpost.is_email_of(p_id text, p_workspace text) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    IF p_id !~ '^[0-9]{1,18}$|^[1-8][0-9]{18}$' THEN   -- in a separate statement, because within one expression, the cast might run before the check
        RETURN false;
    END IF;
    RETURN EXISTS (SELECT FROM fairpost.queue q WHERE q.id = p_id::bigint AND q.workspace = p_workspace)
        OR EXISTS (SELECT FROM fairpost.emails m WHERE m.id = p_id::bigint AND m.workspace = p_workspace);
END $$;

-- Returns the first problem with the fields other than addresses, headers and attachments, or null if there is none.
CREATE OR REPLACE FUNCTION fairpost.check_words(e jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    wrong jsonb;
    unknown jsonb;
    word record;
    field text;
BEGIN
    unknown := e - '{to,cc,bcc,from,reply_to,subject,text,html,headers,attachments,content_id,fields,workspace,user,stream,class,pool,account,due_at,expires_at,attempts_max,on_doubt,idempotency_key,follows,type,tags,metadata}'::text[];
    IF unknown <> '{}' THEN
        RETURN fairpost.complaint((SELECT left(min(k), 100) FROM jsonb_object_keys(unknown) k), 'is not a field of an e-mail; known: to, cc, bcc, from, reply_to, subject, text, html, headers, attachments, content_id, fields, workspace, user, stream, class, pool, account, due_at, expires_at, attempts_max, on_doubt, idempotency_key, follows, type, tags, metadata');
    END IF;
    FOR word IN SELECT * FROM (VALUES ('subject', 998, true), ('workspace', 200, false), ('user', 200, true), ('stream', 200, true),
                                      ('pool', 100, false), ('account', 100, false), ('idempotency_key', 500, false)
                              ) AS w(field, chars_max, may_be_empty) WHERE e ->> w.field IS NOT NULL LOOP
        wrong := fairpost.check_word(word.field, e -> word.field, word.chars_max, word.may_be_empty);
        IF wrong IS NOT NULL THEN
            RETURN wrong;
        END IF;
    END LOOP;
    FOREACH field IN ARRAY ARRAY['due_at', 'expires_at'] LOOP
        CONTINUE WHEN e ->> field IS NULL;
        wrong := fairpost.check_moment(field, e -> field);
        IF wrong IS NOT NULL THEN
            RETURN wrong;
        END IF;
    END LOOP;

    IF e ->> 'text' IS NOT NULL AND (jsonb_typeof(e -> 'text') <> 'string' OR octet_length(e ->> 'text') > 10485760) THEN
        RETURN fairpost.complaint('text', 'must be a string of at most 10485760 bytes');
    ELSIF e ->> 'html' IS NOT NULL AND (jsonb_typeof(e -> 'html') <> 'string' OR octet_length(e ->> 'html') > 10485760) THEN
        RETURN fairpost.complaint('html', 'must be a string of at most 10485760 bytes');
    ELSIF e ->> 'class' IS NOT NULL AND e -> 'class' NOT IN ('"urgent"', '"bulk"') THEN
        RETURN fairpost.complaint('class', 'must be urgent or bulk');
    ELSIF e ->> 'on_doubt' IS NOT NULL AND e -> 'on_doubt' NOT IN ('"resend"', '"hold"') THEN
        RETURN fairpost.complaint('on_doubt', 'must be resend or hold');
    ELSIF e ->> 'attempts_max' IS NOT NULL AND (jsonb_typeof(e -> 'attempts_max') <> 'number' OR (e ->> 'attempts_max') !~ '^([1-9]|[1-4][0-9]|50)$') THEN
        RETURN fairpost.complaint('attempts_max', 'must be a whole number from 1 to 50');
    ELSIF e ->> 'content_id' IS NOT NULL AND (e ->> 'content_id') !~ '^[0-9]{1,18}$|^[1-8][0-9]{18}$' THEN
        RETURN fairpost.complaint('content_id', 'must be an ID that fairpost.put_content returned');
    ELSIF e ->> 'follows' IS NOT NULL AND NOT fairpost.is_email_of(e ->> 'follows', coalesce(e ->> 'workspace', 'default')) THEN
        RETURN fairpost.complaint('follows', 'must be the ID of an e-mail in this workspace');
    ELSIF e ->> 'fields' IS NOT NULL AND (jsonb_typeof(e -> 'fields') <> 'object' OR octet_length((e -> 'fields')::text) > 65536) THEN
        RETURN fairpost.complaint('fields', 'must be an object of at most 65536 bytes');
    ELSIF e ->> 'type' IS NOT NULL AND (jsonb_typeof(e -> 'type') <> 'string' OR (e ->> 'type') !~ '^[A-Za-z0-9][A-Za-z0-9_.:-]{0,149}$') THEN
        RETURN fairpost.complaint('type', 'must be 1 to 150 letters, digits and _.:- and start with a letter or digit');
    ELSIF e ->> 'metadata' IS NOT NULL AND (jsonb_typeof(e -> 'metadata') <> 'object' OR octet_length((e -> 'metadata')::text) > 2048) THEN
        RETURN fairpost.complaint('metadata', 'must be an object of at most 2048 bytes');
    ELSIF e ->> 'tags' IS NOT NULL THEN
        wrong := fairpost.check_tags(e -> 'tags');
        IF wrong IS NOT NULL THEN
            RETURN wrong;
        END IF;
    END IF;
    IF e ->> 'pool' IS NOT NULL AND e ->> 'account' IS NOT NULL THEN
        RETURN fairpost.complaint('account', 'give a pool or an account, not both');
    ELSIF e ->> 'workspace' = '*' THEN
        RETURN fairpost.complaint('workspace', 'must not be *, which stands for all workspaces');
    ELSIF left(e ->> 'pool', 1) = '@' THEN
        RETURN fairpost.complaint('pool', 'must not begin with @');
    END IF;
    RETURN NULL;
END $$;

-- Returns the first problem with the tags, or null if there is none.
CREATE OR REPLACE FUNCTION fairpost.check_tags(tags jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    name text;
    value jsonb;
    total integer := 0;
    wrong jsonb;
BEGIN
    IF jsonb_typeof(tags) <> 'object' THEN
        RETURN fairpost.complaint('tags', 'must be an object of names and strings');
    END IF;
    FOR name, value IN SELECT * FROM jsonb_each(tags) LOOP
        total := total + 1;
        IF total > 20 THEN
            RETURN fairpost.complaint('tags', 'must be at most 20');
        ELSIF name !~ '^[A-Za-z0-9_.-]{1,50}$' THEN
            RETURN fairpost.complaint('tags', format('%s is not a tag name: use 1 to 50 letters, digits and _.-', to_jsonb(left(name, 100))));
        END IF;
        wrong := fairpost.check_word('tags.' || name, value, 200, true);
        IF wrong IS NOT NULL THEN
            RETURN wrong;
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- Returns the first problem with the custom headers, or null if there is none.
CREATE OR REPLACE FUNCTION fairpost.check_headers(headers jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    name text;
    value jsonb;
    total integer := 0;
BEGIN
    IF jsonb_typeof(headers) <> 'object' THEN
        RETURN fairpost.complaint('headers', 'must be an object of names and strings');
    END IF;
    FOR name, value IN SELECT * FROM jsonb_each(headers) LOOP
        total := total + 1;
        IF name !~ '^[!-9;-~]{1,100}$' THEN
            RETURN fairpost.complaint('headers', format('%s is no header name', to_jsonb(left(name, 100))));
        ELSIF lower(name COLLATE "C") IN ('from', 'to', 'cc', 'bcc', 'subject', 'date', 'message-id', 'reply-to', 'sender', 'return-path',
            'received', 'mime-version', 'dkim-signature', 'x-fairpost-id') OR name ILIKE 'content-%' THEN
            RETURN fairpost.complaint('headers.' || name, 'is set by Fairpost and cannot be given');
        ELSIF jsonb_typeof(value) <> 'string' OR (value #>> '{}') ~ '[\x01-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]' THEN
            RETURN fairpost.complaint('headers.' || name, 'must be a string without line breaks or other control characters');
        ELSIF octet_length(value #>> '{}') > 8192 THEN
            RETURN fairpost.complaint('headers.' || name, format('must be at most 8192 bytes long, got %s', octet_length(value #>> '{}')));
        ELSIF total > 50 THEN
            RETURN fairpost.complaint('headers', 'must be at most 50');
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- Returns the first problem with the attachments, or null if there is none.
CREATE OR REPLACE FUNCTION fairpost.check_attachments(attachments jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    item jsonb;
    field text;
    place integer := 0;
    bytes bigint := 0;
BEGIN
    IF jsonb_typeof(attachments) <> 'array' OR jsonb_array_length(attachments) > 50 THEN
        RETURN fairpost.complaint('attachments', 'must be a list of at most 50');
    END IF;
    FOR item IN SELECT jsonb_array_elements(attachments) LOOP
        field := 'attachments[' || place || ']';
        IF jsonb_typeof(item) <> 'object' OR item - ARRAY['filename', 'content_type', 'inline_id', 'data'] <> '{}' THEN
            RETURN fairpost.complaint(field, 'must be an object with filename, data (base64) and, optionally, content_type and inline_id');
        ELSIF coalesce(jsonb_typeof(item -> 'filename'), '') <> 'string' OR (item ->> 'filename') ~ '[\x01-\x1f\x7f-\x9f\u2028\u2029/\\]'
            OR char_length(item ->> 'filename') NOT BETWEEN 1 AND 255 THEN
            RETURN fairpost.complaint(field || '.filename', 'must be a name of at most 255 characters without slashes or control characters');
        ELSIF item ? 'content_type' AND item ->> 'content_type' IS NOT NULL
            AND (item ->> 'content_type') !~ '^[A-Za-z0-9!#$&^_.+-]{1,100}/[A-Za-z0-9!#$&^_.+-]{1,100}$' THEN
            RETURN fairpost.complaint(field || '.content_type', 'must be a media type such as image/png');
        ELSIF item ? 'inline_id' AND item ->> 'inline_id' IS NOT NULL AND (item ->> 'inline_id') !~ '^[A-Za-z0-9._@+-]{1,200}$' THEN
            RETURN fairpost.complaint(field || '.inline_id', 'must consist of letters, digits and ._@+- (it is used as cid: in the HTML)');
        ELSIF coalesce(jsonb_typeof(item -> 'data'), '') <> 'string' THEN
            RETURN fairpost.complaint(field || '.data', 'must be base64 text');
        END IF;
        BEGIN
            bytes := bytes + octet_length(decode(item ->> 'data', 'base64'));
        EXCEPTION WHEN invalid_parameter_value OR data_exception THEN
            RETURN fairpost.complaint(field || '.data', 'must be base64 text');
        END;
        IF bytes > 26214400 THEN
            RETURN fairpost.complaint('attachments', 'must be at most 26214400 bytes in total');
        END IF;
        place := place + 1;
    END LOOP;
    RETURN NULL;
END $$;

-- Returns the first problem with the subject, bodies, headers and attachments, or null if there is none.
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
        RETURN fairpost.complaint('subject', 'is required (it may be empty)');
    ELSIF e ->> 'text' IS NULL AND e ->> 'html' IS NULL THEN
        RETURN fairpost.complaint('text', 'text or html is needed (it may be empty)');
    ELSIF e ->> 'reply_to' IS NOT NULL AND fairpost.parse_address(e -> 'reply_to') IS NULL THEN
        RETURN fairpost.no_address('reply_to', e -> 'reply_to');
    END IF;
    IF e ->> 'headers' IS NOT NULL THEN
        wrong := fairpost.check_headers(e -> 'headers');
    END IF;
    IF wrong IS NULL AND e ->> 'attachments' IS NOT NULL THEN
        wrong := fairpost.check_attachments(e -> 'attachments');
    END IF;
    RETURN wrong;
END $$;

-- Returns the first problem with an e-mail, or null if there is none. This function is authoritative. is_plain is only a shortcut for the obvious
-- cases.
CREATE OR REPLACE FUNCTION fairpost.check_email(e jsonb, p_now timestamptz) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wrong jsonb;
    recipients jsonb := '[]';
    kind text;
BEGIN
    IF jsonb_typeof(e) IS DISTINCT FROM 'object' THEN
        RETURN fairpost.complaint('', 'an e-mail must be an object');
    END IF;
    wrong := fairpost.check_words(e);
    IF wrong IS NOT NULL THEN
        RETURN wrong;
    END IF;
    FOREACH kind IN ARRAY ARRAY['to', 'cc', 'bcc'] LOOP
        CONTINUE WHEN e ->> kind IS NULL;
        SELECT r.recipients, r.wrong INTO recipients, wrong FROM fairpost.add_recipients(kind, e -> kind, recipients) r;
        IF wrong IS NOT NULL THEN
            RETURN wrong;
        END IF;
    END LOOP;
    IF recipients = '[]' THEN
        RETURN fairpost.complaint('to', 'at least one recipient is needed');
    ELSIF e ->> 'from' IS NOT NULL AND fairpost.parse_sender(e -> 'from') IS NULL THEN
        RETURN fairpost.no_address('from', e -> 'from');
    END IF;
    wrong := fairpost.check_content(e);
    IF wrong IS NULL AND (e ->> 'expires_at')::timestamptz <= greatest((e ->> 'due_at')::timestamptz, p_now) THEN
        wrong := fairpost.complaint('expires_at', 'must be after due_at and in the future');
    END IF;
    RETURN wrong;
END $$;

-- Returns true if an e-mail is certainly well-formed. Most mail is plain, and this one expression recognizes it without running every check. If it
-- returns false, the e-mail may still be valid, and check_email decides. `o` contains the fields of `e` as text. `contents` contains the ids of
-- existing shared contents, or is null if the e-mail must not use shared content.
DROP FUNCTION IF EXISTS fairpost.is_plain(jsonb, text[]);
CREATE OR REPLACE FUNCTION fairpost.is_plain(e jsonb, o fairpost.plain_fields, contents text[]) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT jsonb_typeof(e) = 'object'
        AND e - '{to,from,subject,text,html,content_id,workspace,user,stream,class,pool,account,due_at,on_doubt,idempotency_key}'::text[] = '{}'
        AND NOT CASE WHEN contents IS NULL THEN e ELSE e - 'content_id' END @? 'strict $.* ? (@.type() <> "string")'
        AND o."to" ~ '^[A-Za-z0-9_+-]+([.][A-Za-z0-9_+-]+)*@([a-z0-9]+(-+[a-z0-9]+)*[.])+[a-z0-9]+$' AND length(o."to") <= 64
        AND coalesce(o."from" ~ '^[A-Za-z0-9_+-]+([.][A-Za-z0-9_+-]+)*@([a-z0-9]+(-+[a-z0-9]+)*[.])+[a-z0-9]+$' AND length(o."from") <= 64, true)
        AND CASE WHEN e ? 'content_id' THEN coalesce(e ->> 'content_id' = ANY (contents), false) AND num_nonnulls(o.subject, o.text, o.html) = 0
                 ELSE coalesce(length(o.subject) <= 998 AND octet_length(concat(o.text, o.html)) <= 10485760, false) AND num_nonnulls(o.text, o.html) > 0 END
        AND concat(o.subject, o.workspace, o."user", o.stream, o.pool, o.account, o.idempotency_key) !~ '[\x01-\x1f\x7f-\x9f\u2028\u2029]'
        AND length(concat(o.workspace, o."user", o.stream, o.pool, o.account, o.idempotency_key)) <= 100
        AND coalesce(o.workspace NOT IN ('', '*'), true) AND coalesce(o.idempotency_key <> '', true)
        AND coalesce(o.pool <> '' AND left(o.pool, 1) <> '@', true) AND coalesce(o.account <> '', true) AND num_nonnulls(o.pool, o.account) < 2
        AND coalesce(o.class IN ('urgent', 'bulk'), true) AND coalesce(o.on_doubt IN ('resend', 'hold'), true)
        AND coalesce(o.due_at ~ '^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?(Z|[+]00:00)$', true)
$$;
