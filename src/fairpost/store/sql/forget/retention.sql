-- Drops history by month, as whole partitions instead of individual rows.

-- Returns the months that have partitions, oldest first, with their sizes on disk.
CREATE OR REPLACE FUNCTION fairpost.months_of_history() RETURNS TABLE (month timestamptz, low bigint, high bigint, partitions text[], bytes bigint)
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET timezone = 'UTC' AS $$
    SELECT m.month, fairpost.first_id_at(m.month), fairpost.first_id_at(m.month + interval '1 month'), m.partitions, m.bytes
    FROM (SELECT to_timestamp(right(c.relname, 7), 'YYYY_MM') AS month, array_agg(c.relname::text ORDER BY c.relname) AS partitions,
                 sum(pg_total_relation_size(c.oid))::bigint AS bytes
          FROM fairpost.history_tables() t JOIN pg_inherits i ON i.inhparent = ('fairpost.' || t.name)::regclass
          JOIN pg_class c ON c.oid = i.inhrelid AND c.relname ~ '_[0-9]{4}_[0-9]{2}$' GROUP BY 1) m
    ORDER BY 1
$$;

-- Returns the reason why a past month cannot be dropped, or null if it can be dropped. An e-mail belongs to the month in which it was enqueued but
-- may finish much later. The e-mail is kept for as long as other e-mails that finished at the same time. Needs the queue's primary key and the index
-- queue_followers.
CREATE OR REPLACE FUNCTION fairpost.why_kept(p_low bigint, p_high bigint, p_before timestamptz) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    unfinished CONSTANT bigint := (SELECT q.id FROM fairpost.queue q WHERE q.id >= p_low AND q.id < p_high ORDER BY q.id LIMIT 1);
    following CONSTANT bigint := (SELECT q.id FROM fairpost.queue q WHERE q.follows >= p_low AND q.follows < p_high ORDER BY q.follows LIMIT 1);
BEGIN
    IF unfinished IS NOT NULL THEN
        RETURN format('e-mail %s from this month is not finished', unfinished);
    ELSIF following IS NOT NULL THEN
        RETURN format('e-mail %s is not finished and follows an e-mail from this month', following);
    ELSIF fairpost.finished_since(p_low, p_before) THEN
        RETURN format('an e-mail from this month finished after %s', to_char(p_before AT TIME ZONE 'UTC', 'YYYY-MM-DD'));
    END IF;
    RETURN NULL;
END $$;

-- Returns whether an e-mail from the month that begins with this id finished at or after the given time. Only the index emails_by_finish is suitable,
-- because any other index would be read completely.
CREATE OR REPLACE FUNCTION fairpost.finished_since(p_low bigint, p_moment timestamptz) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_indexscan = off SET jit = off AS $$
DECLARE
    partition CONSTANT text := (SELECT p FROM fairpost.months_of_history() h, unnest(h.partitions) p WHERE h.low = p_low AND p LIKE 'emails%');
    found boolean := false;
BEGIN
    IF partition IS NOT NULL THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM fairpost.%I WHERE finished_at >= $1)', partition) INTO found USING p_moment;
    END IF;
    RETURN found;
END $$;

-- Returns those contents of a month that are still used by campaign steps, waiting e-mails, or e-mails from later months. Skips from one content to
-- the next in the index, so that a million e-mails with the same content require only one lookup. Needs the indexes queue_of_content and
-- emails_of_content.
CREATE OR REPLACE FUNCTION fairpost.contents_in_use(p_low bigint, p_high bigint) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    WITH RECURSIVE later(id) AS (
        (SELECT e.content_id FROM fairpost.emails e WHERE e.content_id <> e.id AND e.campaign_id IS NULL AND e.id >= p_high
         AND e.content_id >= p_low AND e.content_id < p_high ORDER BY e.content_id LIMIT 1)
        UNION ALL
        SELECT (SELECT e.content_id FROM fairpost.emails e WHERE e.content_id <> e.id AND e.campaign_id IS NULL AND e.id >= p_high
                AND e.content_id > l.id AND e.content_id < p_high ORDER BY e.content_id LIMIT 1)
        FROM later l WHERE l.id IS NOT NULL
    )
    SELECT ARRAY(
        SELECT l.id FROM later l WHERE l.id IS NOT NULL
        UNION
        SELECT q.content_id FROM fairpost.queue q WHERE q.content_id <> q.id AND q.campaign_id IS NULL AND q.content_id >= p_low AND q.content_id < p_high
        UNION
        SELECT s.content_id FROM fairpost.campaign_steps s WHERE s.content_id >= p_low AND s.content_id < p_high)
$$;

-- Drops the oldest month that ended before the given time and need not be kept. Call the function again as long as it returns a month. Contents that
-- are still used move to the default partition. A partition can only be dropped while its table is not in use. Because later transactions queue up
-- behind this one, the function waits at most 200 ms for a table and then fails with lock_not_available, so that the caller can try again. Once the
-- function has locked the tables, no transaction can start to use the month, so the checks remain valid until the end. (DETACH CONCURRENTLY does not
-- support tables with a default partition.)
CREATE OR REPLACE FUNCTION fairpost.drop_history(
    p_before timestamptz, p_now timestamptz DEFAULT NULL, OUT month timestamptz, OUT partitions text[], OUT bytes bigint, OUT moved integer
)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET lock_timeout = '200ms' SET client_min_messages = warning AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    old record;
    kept bigint[];
    parent text;
    key text;
    partition text;
BEGIN
    PERFORM pg_advisory_xact_lock(fairpost.partitions_lock());
    FOR old IN SELECT * FROM fairpost.months_of_history() h WHERE h.high <= fairpost.first_id_at(least(p_before, t)) ORDER BY h.month LOOP
        CONTINUE WHEN fairpost.why_kept(old.low, old.high, p_before) IS NOT NULL;
        LOCK TABLE ONLY fairpost.contents, ONLY fairpost.attachments, ONLY fairpost.emails, ONLY fairpost.attempts, ONLY fairpost.labels, ONLY fairpost.tag_marks IN ACCESS EXCLUSIVE MODE;
        FOR partition IN SELECT unnest(old.partitions) UNION ALL SELECT h.name || '_rest' FROM fairpost.history_tables() h LOOP
            EXECUTE format('LOCK TABLE ONLY fairpost.%I IN ACCESS EXCLUSIVE MODE NOWAIT', partition);
        END LOOP;
        EXIT WHEN fairpost.why_kept(old.low, old.high, p_before) IS NOT NULL;   -- the month was used again before it was locked; stop here, so that no transaction has to wait for another month
        kept := fairpost.contents_in_use(old.low, old.high);
        moved := 0;
        FOR parent, key IN SELECT * FROM fairpost.history_tables() LOOP
            partition := (SELECT p FROM unnest(old.partitions) p WHERE left(p, -8) = parent);
            CONTINUE WHEN partition IS NULL;
            EXECUTE format('ALTER TABLE fairpost.%I DETACH PARTITION fairpost.%I', parent, partition);
            IF kept <> '{}' AND parent IN ('contents', 'attachments') THEN
                EXECUTE format('INSERT INTO fairpost.%I SELECT * FROM fairpost.%I WHERE %I = ANY ($1)', parent, partition, key) USING kept;
            END IF;
            EXECUTE format('DROP TABLE fairpost.%I', partition);
        END LOOP;
        month := old.month;
        partitions := old.partitions;
        bytes := old.bytes;
        moved := cardinality(kept);
        INSERT INTO fairpost.events (at, kind, subject, detail)
        VALUES (t, 'history_dropped', to_char(old.month AT TIME ZONE 'UTC', 'YYYY-MM'), jsonb_build_object('partitions', old.partitions, 'bytes', old.bytes, 'contents_kept', cardinality(kept)));
        RETURN;
    END LOOP;
END $$;

-- Deletes rows that belong to no monthly partition: e-mails from months without a partition, and contents that outlived their month. There are few
-- such rows, so they are deleted individually. Returns the number of rows deleted. If the number is `p_max`, call again.
CREATE OR REPLACE FUNCTION fairpost.sweep_rest(p_before timestamptz, p_max integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET lock_timeout = '200ms' SET jit = off AS $$
DECLARE
    below CONSTANT bigint := fairpost.first_id_at(p_before);
    emails bigint[];
    unused bigint[];
BEGIN
    emails := ARRAY(
        SELECT e.id FROM fairpost.emails_rest e WHERE e.id < below AND e.finished_at < p_before
        AND NOT EXISTS (SELECT FROM fairpost.queue q WHERE q.follows = e.id) ORDER BY e.id LIMIT p_max FOR UPDATE SKIP LOCKED);
    DELETE FROM fairpost.attempts_rest a WHERE a.email_id = ANY (emails);
    DELETE FROM fairpost.labels_rest l WHERE l.email_id = ANY (emails);
    DELETE FROM fairpost.tag_marks_rest m WHERE m.email_id = ANY (emails);
    DELETE FROM fairpost.emails_rest e WHERE e.id = ANY (emails);
    unused := fairpost.unused_in_rest(below, p_max);
    IF unused <> '{}' THEN
        LOCK TABLE ONLY fairpost.contents_rest IN ACCESS EXCLUSIVE MODE;   -- from this point on, no new e-mail can use them
        unused := fairpost.unused_in_rest(below, p_max);
        DELETE FROM fairpost.attachments_rest a WHERE a.content_id = ANY (unused);
        DELETE FROM fairpost.contents_rest c WHERE c.id = ANY (unused);
    END IF;
    DELETE FROM fairpost.shared_contents s WHERE s.content_id = ANY (ARRAY(
        SELECT o.content_id FROM fairpost.shared_contents o WHERE o.content_id < below
        AND NOT EXISTS (SELECT FROM fairpost.contents c WHERE c.id = o.content_id) ORDER BY o.content_id LIMIT p_max));
    RETURN greatest(cardinality(emails), cardinality(unused));
END $$;

-- Returns unused contents that belong to no monthly partition and have an id below the given id.
CREATE OR REPLACE FUNCTION fairpost.unused_in_rest(p_below bigint, p_max integer) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET jit = off AS $$
    SELECT ARRAY(
        SELECT c.id FROM fairpost.contents_rest c WHERE c.id < p_below
        AND NOT EXISTS (SELECT FROM fairpost.queue q WHERE q.id = c.id)
        AND NOT EXISTS (SELECT FROM fairpost.emails e WHERE e.id = c.id)
        AND NOT EXISTS (SELECT FROM fairpost.queue q WHERE q.content_id = c.id AND q.content_id <> q.id AND q.campaign_id IS NULL)
        AND NOT EXISTS (SELECT FROM fairpost.emails e WHERE e.content_id = c.id AND e.content_id <> e.id AND e.campaign_id IS NULL)
        AND NOT EXISTS (SELECT FROM fairpost.campaign_steps s WHERE s.content_id = c.id)
        ORDER BY c.id LIMIT p_max)
$$;

-- Deletes events, returned mail, and messages in the development inbox that are older than the given time, oldest first. Returns the number of rows
-- deleted. If the number is `p_max` or more, call again.
CREATE OR REPLACE FUNCTION fairpost.drop_events(p_before timestamptz, p_max integer DEFAULT 10000) RETURNS integer
LANGUAGE sql SET search_path = fairpost, pg_catalog, pg_temp AS $$
    WITH returned AS (
        DELETE FROM fairpost.returned r USING (SELECT o.id FROM fairpost.returned o ORDER BY o.id LIMIT p_max) o WHERE r.id = o.id AND r.at < p_before RETURNING 1
    ), replies AS (
        DELETE FROM fairpost.replies r USING (SELECT o.id FROM fairpost.replies o ORDER BY o.id LIMIT p_max) o WHERE r.id = o.id AND r.at < p_before RETURNING 1
    ), conversations AS (
        DELETE FROM fairpost.conversations c USING (SELECT o.id FROM fairpost.conversations o WHERE o.last_at < p_before ORDER BY o.last_at LIMIT p_max) o WHERE c.id = o.id RETURNING 1
    ), events AS (
        DELETE FROM fairpost.events e USING (SELECT o.id FROM fairpost.events o ORDER BY o.id LIMIT p_max) o WHERE e.id = o.id AND e.at < p_before RETURNING 1
    ), mails AS (
        DELETE FROM fairpost.inbox i USING (SELECT o.id FROM fairpost.inbox o ORDER BY o.id LIMIT p_max) o WHERE i.id = o.id AND i.received_at < p_before RETURNING 1
    )
    SELECT greatest((SELECT count(*) FROM events), (SELECT count(*) FROM mails), (SELECT count(*) FROM returned), (SELECT count(*) FROM replies), (SELECT count(*) FROM conversations))::integer
$$;
