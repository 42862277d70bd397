-- Events are partitioned and dropped by day.

-- Creates the partitions for today and the next three days, under the same lock as make_partitions, which creates the monthly partitions.
CREATE OR REPLACE FUNCTION fairpost.make_event_days(p_now timestamptz) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET timezone = 'UTC' SET client_min_messages = warning AS $$
DECLARE
    day timestamptz;
    partition text;
BEGIN
    FOR day IN SELECT generate_series(date_trunc('day', p_now), date_trunc('day', p_now) + interval '3 days', '1 day') LOOP
        partition := to_char(day, '"outbox_"YYYY_MM_DD');
        CONTINUE WHEN to_regclass(format('fairpost.%I', partition)) IS NOT NULL;
        LOCK TABLE fairpost.outbox_rest IN ACCESS EXCLUSIVE MODE;
        EXECUTE format('CREATE TABLE fairpost.%I (LIKE fairpost.outbox INCLUDING ALL)', partition);
        EXECUTE format('WITH strays AS (DELETE FROM fairpost.outbox_rest o WHERE o.at >= %L AND o.at < %L RETURNING *) INSERT INTO fairpost.%I SELECT * FROM strays',
            day, day + interval '1 day', partition);
        EXECUTE format('ALTER TABLE fairpost.outbox ATTACH PARTITION fairpost.%I FOR VALUES FROM (%L) TO (%L)', partition, day, day + interval '1 day');
    END LOOP;
END $$;

-- Drops all days before the given time and returns the number of days dropped. From then on, cursors that point to those days are rejected. Waits for
-- locked tables in the same way as drop_history.
CREATE OR REPLACE FUNCTION fairpost.drop_event_days(p_before timestamptz, p_now timestamptz DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '200ms' SET client_min_messages = warning AS $$
DECLARE
    bound CONSTANT timestamptz := date_trunc('day', least(p_before, coalesce(p_now, clock_timestamp())));
    partition text;
    days integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(fairpost.partitions_lock());
    PERFORM pg_advisory_xact_lock(fairpost.turns_lock());
    PERFORM fairpost.take_turn();
    FOR partition IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid AND c.relname ~ '_[0-9]{4}_[0-9]{2}_[0-9]{2}$'
        WHERE i.inhparent = 'fairpost.outbox'::regclass AND to_timestamp(right(c.relname, 10), 'YYYY_MM_DD') < bound ORDER BY 1
    LOOP
        LOCK TABLE ONLY fairpost.outbox IN ACCESS EXCLUSIVE MODE;
        EXECUTE format('LOCK TABLE ONLY fairpost.%I IN ACCESS EXCLUSIVE MODE NOWAIT', partition);
        EXECUTE format('ALTER TABLE fairpost.outbox DETACH PARTITION fairpost.%I', partition);
        EXECUTE format('DROP TABLE fairpost.%I', partition);
        days := days + 1;
    END LOOP;
    DELETE FROM fairpost.outbox_rest o WHERE o.at < bound;
    UPDATE fairpost.events_dropped d SET turn = t.turn, id = t.last_id
    FROM (SELECT t.turn, t.last_id FROM fairpost.event_turns t WHERE t.first_at < bound ORDER BY t.turn DESC LIMIT 1) t WHERE t.turn > d.turn;
    DELETE FROM fairpost.event_turns t WHERE t.last_at < bound AND t.turn < (SELECT max(o.turn) FROM fairpost.event_turns o);   -- the newest turn is kept, because it records which events have a position
    RETURN days;
END $$;
