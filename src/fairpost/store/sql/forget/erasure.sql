-- Erases a person's data, but keeps other people's data in the same rows. A null `p_workspace` means all workspaces.

-- Returns whether an e-mail was sent to this person. Most e-mails have a single recipient.
CREATE OR REPLACE FUNCTION fairpost.is_for(recipients jsonb, folded text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT fairpost.normalize_address(recipients #>> '{0,address}') = folded
        OR jsonb_array_length(recipients) > 1 AND EXISTS (SELECT FROM jsonb_array_elements(recipients) r WHERE fairpost.normalize_address(r ->> 'address') = folded)
$$;

CREATE OR REPLACE FUNCTION fairpost.others_of(recipients jsonb, folded text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT jsonb_agg(r.value ORDER BY r.ordinality) FROM jsonb_array_elements(recipients) WITH ORDINALITY r WHERE fairpost.normalize_address(r.value ->> 'address') <> folded
$$;

CREATE OR REPLACE FUNCTION fairpost.addresses_but(addresses text[], folded text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY(SELECT a.address FROM unnest(addresses) WITH ORDINALITY a(address, place) WHERE fairpost.normalize_address(a.address) <> folded ORDER BY a.place)
$$;

-- Returns a pattern that matches these addresses in any text, including links and JSON. The pattern for ann@example.com matches neither
-- joann@example.com nor ann@example.com.au.
CREATE OR REPLACE FUNCTION fairpost.address_pattern(addresses text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT '(?<![[:alnum:]._+-])(?:' || string_agg(DISTINCT regexp_replace(form, '([][^$*.+?(){}|\\])', '\\\1', 'g'), '|') || ')(?![[:alnum:]-]|\.[[:alnum:]])'
    FROM unnest(addresses) a CROSS JOIN LATERAL (VALUES (a), (replace(a, '@', '%40')), (trim('"' FROM to_jsonb(a)::text))) forms(form)
$$;

CREATE OR REPLACE FUNCTION fairpost.without(said text, pattern text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT regexp_replace(said, pattern, '[erased]', 'gi')
$$;

CREATE OR REPLACE FUNCTION fairpost.without(said jsonb, pattern text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN said::text ~* pattern THEN regexp_replace(said::text, pattern, '[erased]', 'gi')::jsonb ELSE said END
$$;

-- The first step of an erasure. Afterwards, the person receives no more mail, unless `p_keep_sendable` is true. Deletes the data stored by address:
-- prospects with their lists and fields, bounce counts, and entries on the suppression list, of which only the hashes are kept. `written` contains
-- the forms in which the address was found.
CREATE OR REPLACE FUNCTION fairpost.erase_entries(
    p_workspace text, p_address text, p_keep_sendable boolean DEFAULT false, p_now timestamptz DEFAULT NULL,
    OUT address_hash text, OUT written text[], OUT prospects integer, OUT suppressions integer, OUT cancelled integer, OUT inbox_mails integer, OUT is_new boolean
)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    person CONSTANT text := fairpost.normalize_address(p_address);
    hash CONSTANT bytea := fairpost.address_hash(person);
    known bigint[];
    waiting bigint[];
BEGIN
    is_new := false;
    inbox_mails := 0;
    IF NOT p_keep_sendable THEN
        INSERT INTO fairpost.suppression_hashes (workspace, address_hash, kind, created_at) VALUES (coalesce(p_workspace, '*'), hash, 'manual', t) ON CONFLICT DO NOTHING;
        is_new := FOUND;
    END IF;
    WITH gone AS (
        DELETE FROM fairpost.suppressions s WHERE s.address = person AND (p_workspace IS NULL OR s.workspace = p_workspace) RETURNING s.*
    )
    INSERT INTO fairpost.suppression_hashes AS h (workspace, address_hash, kind, created_at, also_urgent)
    SELECT g.workspace, hash, g.kind, g.created_at, g.also_urgent FROM gone g ORDER BY g.workspace
    ON CONFLICT (address_hash, workspace) DO UPDATE SET kind = greatest(h.kind, excluded.kind),
        also_urgent = fairpost.stops_mail(h.kind, h.also_urgent, 'urgent') OR fairpost.stops_mail(excluded.kind, excluded.also_urgent, 'urgent'), created_at = least(h.created_at, excluded.created_at);
    GET DIAGNOSTICS suppressions = ROW_COUNT;

    known := ARRAY(SELECT p.id FROM fairpost.prospects p WHERE p.folded = person AND (p_workspace IS NULL OR p.workspace = p_workspace) ORDER BY p.id);
    written := ARRAY(SELECT DISTINCT w.form FROM (SELECT p.address AS form FROM fairpost.prospects p WHERE p.id = ANY (known) UNION VALUES (p_address), (person)) w);
    prospects := cardinality(known);
    waiting := ARRAY(SELECT q.id FROM fairpost.queue q WHERE q.prospect_id = ANY (known));
    PERFORM fairpost.remove_prospects(known, p_now);
    cancelled := fairpost.erase_emails(waiting, p_address, written);
    DELETE FROM fairpost.soft_bounces b WHERE b.address = person AND (p_workspace IS NULL OR b.workspace = p_workspace);
    DELETE FROM fairpost.returned r WHERE r.address = person AND (p_workspace IS NULL OR r.workspace = p_workspace);
    DELETE FROM fairpost.conversations c WHERE c.address = person AND (p_workspace IS NULL OR c.workspace = p_workspace);
    DELETE FROM fairpost.replies r WHERE r.author = person AND (p_workspace IS NULL OR r.workspace = p_workspace);
    PERFORM fairpost.erase_outbox_of_address(p_workspace, person, fairpost.address_pattern(written));
    IF p_workspace IS NULL THEN
        DELETE FROM fairpost.inbox i WHERE EXISTS (SELECT FROM unnest(i.recipients) r WHERE fairpost.normalize_address(r) = person);
        GET DIAGNOSTICS inbox_mails = ROW_COUNT;
    END IF;
    address_hash := encode(hash, 'hex');
END $$;

-- Processes a batch of waiting e-mails to the person, starting after the id `p_after`. An e-mail without other recipients is cancelled. Otherwise,
-- the person is removed from its recipients and the e-mail must be claimed again. E-mails that are being sent or are in doubt are left unchanged and
-- returned as `in_hand`. Continue after `last`; if it is null, there are no more e-mails.
CREATE OR REPLACE FUNCTION fairpost.erase_waiting(
    p_workspace text, p_address text, p_written text[], p_after bigint DEFAULT 0, p_max integer DEFAULT 500, p_now timestamptz DEFAULT NULL,
    OUT cancelled integer, OUT taken_out integer, OUT in_hand bigint[], OUT last bigint
)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    folded CONSTANT text := fairpost.normalize_address(p_address);
    found CONSTANT bigint[] := ARRAY(
        SELECT q.id FROM fairpost.queue q WHERE q.id > p_after AND (p_workspace IS NULL OR q.workspace = p_workspace) AND fairpost.is_for(q.recipients, folded)
        ORDER BY q.id LIMIT p_max);
    email fairpost.queue;
    free bigint[] := '{}';
BEGIN
    cancelled := 0;
    taken_out := 0;
    last := CASE WHEN cardinality(found) = p_max THEN found[p_max] END;
    FOR email IN SELECT * FROM fairpost.queue q WHERE q.id = ANY (found) AND q.state IN ('waiting', 'claimed') ORDER BY q.id FOR UPDATE SKIP LOCKED LOOP
        free := free || email.id;
        IF fairpost.addresses_but(email.addresses, folded) = '{}' THEN
            cancelled := cancelled + (fairpost.cancel_email(email.id, 'email.recipient_erased', '{}', t) = 'cancelled')::integer;
        ELSE
            PERFORM fairpost.take_out(email, folded, p_written);
            taken_out := taken_out + 1;
        END IF;
    END LOOP;
    PERFORM fairpost.erase_emails(free, p_address, p_written);
    in_hand := ARRAY(SELECT q.id FROM fairpost.queue q WHERE q.id = ANY (found) AND q.id <> ALL (free) ORDER BY q.id);
END $$;

-- Removes one recipient from an e-mail that is waiting, or that was claimed and is locked by this transaction.
CREATE OR REPLACE FUNCTION fairpost.take_out(email fairpost.queue, folded text, p_written text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    pattern CONSTANT text := fairpost.address_pattern(p_written || fairpost.written_forms(email.recipients, folded));
BEGIN
    UPDATE fairpost.queue q SET
        recipients = fairpost.others_of(q.recipients, folded), addresses = fairpost.addresses_but(q.addresses, folded), idempotency_key = NULL,
        fields = fairpost.without(q.fields, pattern), last_error = fairpost.without(q.last_error, pattern), evidence = fairpost.without(q.evidence, pattern),
        state = 'waiting', waiting = true, claimed_at = NULL
    WHERE q.id = email.id;
    IF email.state = 'claimed' THEN
        PERFORM fairpost.note(ARRAY[email.id], 1);
    END IF;
    PERFORM fairpost.erase_attempts(email.id, folded, pattern);
    PERFORM fairpost.erase_labels(email.id, false, pattern);
    PERFORM fairpost.erase_outbox_of_email(email.id, folded, pattern);
    DELETE FROM fairpost.webhook_deliveries d WHERE d.email_id = email.id;   -- servers may have quoted the address in their replies
    PERFORM fairpost.erase_content(email.id, email.content_id, false, pattern);
END $$;

-- Returns the forms in which this person's address appears among the recipients.
CREATE OR REPLACE FUNCTION fairpost.written_forms(recipients jsonb, folded text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY(SELECT DISTINCT r ->> 'address' FROM jsonb_array_elements(recipients) r WHERE fairpost.normalize_address(r ->> 'address') = folded)
$$;

-- Erases the person from finished e-mails. If an e-mail was sent to this person alone, the only facts kept are its existence, time, account and
-- outcome. Returns the number of e-mails changed.
CREATE OR REPLACE FUNCTION fairpost.erase_emails(p_ids bigint[], p_address text, p_written text[]) RETURNS integer
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    folded CONSTANT text := fairpost.normalize_address(p_address);
    email fairpost.emails;
    others jsonb;
    pattern text;
    n integer := 0;
BEGIN
    FOR email IN SELECT * FROM fairpost.emails e WHERE e.id = ANY (p_ids) AND fairpost.is_for(e.recipients, folded) ORDER BY e.id FOR UPDATE LOOP
        pattern := fairpost.address_pattern(p_written || fairpost.written_forms(email.recipients, folded));
        others := fairpost.others_of(email.recipients, folded);
        UPDATE fairpost.emails e SET
            recipients = coalesce(others, '[{"kind": "to", "address": "[erased]"}]'), addresses = fairpost.addresses_but(e.addresses, folded),
            fields = CASE WHEN others IS NOT NULL THEN fairpost.without(e.fields, pattern) END,
            sender = CASE WHEN fairpost.normalize_address(e.sender ->> 'address') IS DISTINCT FROM folded THEN e.sender END,
            reason = fairpost.without(e.reason, pattern), reason_params = fairpost.without(e.reason_params, pattern), idempotency_key = NULL, prospect_id = NULL,
            message_id = CASE WHEN others IS NOT NULL THEN e.message_id END, thread_id = CASE WHEN others IS NOT NULL THEN e.thread_id END
        WHERE e.id = email.id;
        PERFORM fairpost.erase_attempts(email.id, folded, pattern);
        PERFORM fairpost.erase_labels(email.id, others IS NULL, pattern);
        PERFORM fairpost.erase_outbox_of_email(email.id, folded, pattern);
        DELETE FROM fairpost.webhook_deliveries d WHERE d.email_id = email.id;
        PERFORM fairpost.erase_content(email.id, email.content_id, others IS NULL, pattern);
        n := n + 1;
    END LOOP;
    RETURN n;
END $$;

-- Erases the servers' replies about the person. The code and the outcome are kept.
CREATE OR REPLACE FUNCTION fairpost.erase_attempts(p_email bigint, folded text, pattern text) RETURNS void
LANGUAGE sql AS $$
    UPDATE fairpost.attempts a SET recipients = (SELECT fairpost.without(jsonb_object_agg(r.key, r.value), pattern) FROM jsonb_each(a.recipients) r WHERE fairpost.normalize_address(r.key) <> folded)
    WHERE a.email_id = p_email AND jsonb_typeof(a.recipients) = 'object';
    UPDATE fairpost.attempts a SET reply = '[erased]' WHERE a.email_id = p_email AND a.reply ~* pattern;
$$;

-- Erases the whole content of an e-mail if there were no other recipients; otherwise, erases only the address from it. Content that several e-mails
-- share is kept.
CREATE OR REPLACE FUNCTION fairpost.erase_content(p_email bigint, p_content bigint, p_whole boolean, pattern text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    is_shared CONSTANT boolean := p_content <> p_email
        OR EXISTS (SELECT FROM fairpost.queue q WHERE q.content_id = p_content AND q.content_id <> q.id AND q.campaign_id IS NULL)
        OR EXISTS (SELECT FROM fairpost.emails e WHERE e.content_id = p_content AND e.content_id <> e.id AND e.campaign_id IS NULL);
BEGIN
    IF p_content <> p_email THEN
        RETURN;
    ELSIF p_whole AND NOT is_shared THEN
        UPDATE fairpost.contents c SET subject = '[erased]', text_body = NULL, html_body = NULL, reply_to = NULL, headers = NULL WHERE c.id = p_content;
        DELETE FROM fairpost.attachments a WHERE a.content_id = p_content;
        RETURN;
    END IF;
    UPDATE fairpost.contents c SET
        subject = fairpost.without(c.subject, pattern), text_body = fairpost.without(c.text_body, pattern), html_body = fairpost.without(c.html_body, pattern),
        reply_to = CASE WHEN c.reply_to::text !~* pattern THEN c.reply_to END, headers = fairpost.without(c.headers, pattern)
    WHERE c.id = p_content;
    UPDATE fairpost.attachments a SET filename = fairpost.without(a.filename, pattern) WHERE a.content_id = p_content AND a.filename ~* pattern;
END $$;

-- Erases the address from a batch of events and, when erasing for all workspaces, from account status reasons. Continue after `last`; if it is null,
-- there are no more events.
CREATE OR REPLACE FUNCTION fairpost.erase_events(
    p_workspace text, p_written text[], p_after bigint DEFAULT 0, p_max integer DEFAULT 50000, OUT erased integer, OUT last bigint
)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    pattern CONSTANT text := fairpost.address_pattern(p_written);
BEGIN
    last := (SELECT e.id FROM fairpost.events e WHERE e.id > p_after ORDER BY e.id OFFSET p_max - 1 LIMIT 1);
    UPDATE fairpost.events e SET subject = fairpost.without(e.subject, pattern), detail = fairpost.without(e.detail, pattern)
    WHERE e.id > p_after AND (last IS NULL OR e.id <= last) AND (p_workspace IS NULL OR e.workspace = p_workspace)
    AND (e.subject ~* pattern OR e.detail::text ~* pattern);
    GET DIAGNOSTICS erased = ROW_COUNT;
    IF last IS NULL AND p_workspace IS NULL THEN
        UPDATE fairpost.accounts a SET status_params = fairpost.without(a.status_params, pattern) WHERE a.status_params::text ~* pattern;
        UPDATE fairpost.leases l SET rest_detail = fairpost.without(l.rest_detail, pattern) WHERE l.rest_detail ~* pattern;
    END IF;
END $$;

-- Records the erasure once, without the address.
CREATE OR REPLACE FUNCTION fairpost.note_erasure(p_workspace text, p_hash text, p_counts jsonb, p_now timestamptz DEFAULT NULL) RETURNS void
LANGUAGE sql SET search_path = fairpost, pg_catalog, pg_temp AS $$
    INSERT INTO fairpost.events (at, kind, workspace, subject, detail) VALUES (coalesce(p_now, clock_timestamp()), 'person_erased', p_workspace, p_hash, p_counts)
$$;
