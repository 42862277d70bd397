-- Creates the monthly partitions of history for this month and the next two, and the daily partitions of events. Idempotent. Rows outside these
-- months are never rejected. Such rows go to the default partition and are moved when the partition for their month is created. A partition is
-- created as a separate table and then attached, so only statements that use the default partition have to wait.
CREATE OR REPLACE FUNCTION fairpost.make_partitions(p_now timestamptz DEFAULT clock_timestamp()) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET timezone = 'UTC' SET client_min_messages = warning AS $$
DECLARE
    parent text;
    key text;
    month timestamptz;
    partition text;
    low bigint;
    high bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(fairpost.partitions_lock());
    FOR parent, key IN SELECT * FROM fairpost.history_tables() LOOP
        EXECUTE format('CREATE TABLE IF NOT EXISTS fairpost.%I PARTITION OF fairpost.%I DEFAULT', parent || '_rest', parent);
        FOR month IN SELECT generate_series(date_trunc('month', p_now), date_trunc('month', p_now) + interval '2 months', '1 month') LOOP
            partition := parent || to_char(month, '_YYYY_MM');
            CONTINUE WHEN to_regclass(format('fairpost.%I', partition)) IS NOT NULL;
            low := fairpost.first_id_at(month);
            high := fairpost.first_id_at(month + interval '1 month');
            EXECUTE format('LOCK TABLE fairpost.%I IN ACCESS EXCLUSIVE MODE', parent || '_rest');
            EXECUTE format('CREATE TABLE fairpost.%I (LIKE fairpost.%I INCLUDING ALL)', partition, parent);
            EXECUTE format('WITH strays AS (DELETE FROM fairpost.%I WHERE %I >= %s AND %I < %s RETURNING *) INSERT INTO fairpost.%I SELECT * FROM strays',
                parent || '_rest', key, low, key, high, partition);
            EXECUTE format('ALTER TABLE fairpost.%I ATTACH PARTITION fairpost.%I FOR VALUES FROM (%s) TO (%s)', parent, partition, low, high);
        END LOOP;
    END LOOP;
    PERFORM fairpost.make_event_days(p_now);
END $$;

-- Does the same as make_partitions, but can run while engines are working. If a table stays locked longer than the limit set here, the caller tries
-- again later.
CREATE OR REPLACE FUNCTION fairpost.prepare_months(p_now timestamptz DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
BEGIN
    PERFORM fairpost.make_partitions(coalesce(p_now, clock_timestamp()));
END $$;

-- Lets only one transaction at a time change the partitions.
CREATE OR REPLACE FUNCTION fairpost.partitions_lock() RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT 7381526668557575542
$$;

-- Returns the tables that are partitioned by month, each with the id column that determines the month of a row.
CREATE OR REPLACE FUNCTION fairpost.history_tables() RETURNS TABLE (name text, key text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    VALUES ('contents', 'id'), ('attachments', 'content_id'), ('emails', 'id'), ('attempts', 'email_id'), ('labels', 'email_id'), ('tag_marks', 'email_id')
$$;
