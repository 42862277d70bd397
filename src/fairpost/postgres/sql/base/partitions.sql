-- Makes the monthly partitions of history for this month and the two that follow. Idempotent. What falls
-- outside every month lands in the default partition and is never refused.
CREATE OR REPLACE FUNCTION fairpost.make_partitions(p_now timestamptz DEFAULT clock_timestamp()) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET timezone = 'UTC' SET client_min_messages = warning AS $$
DECLARE
    parent text;
    month timestamptz;
BEGIN
    FOREACH parent IN ARRAY ARRAY['contents', 'attachments', 'emails', 'attempts'] LOOP
        EXECUTE format('CREATE TABLE IF NOT EXISTS fairpost.%I PARTITION OF fairpost.%I DEFAULT', parent || '_rest', parent);
        FOR month IN SELECT generate_series(date_trunc('month', p_now), date_trunc('month', p_now) + interval '2 months', '1 month') LOOP
            EXECUTE format('CREATE TABLE IF NOT EXISTS fairpost.%I PARTITION OF fairpost.%I FOR VALUES FROM (%s) TO (%s)',
                parent || to_char(month, '_YYYY_MM'), parent,
                fairpost.first_id_at(month), fairpost.first_id_at(month + interval '1 month'));
        END LOOP;
    END LOOP;
END $$;
