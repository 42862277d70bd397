-- A new sender account, with its lease and the routes it serves. Returns its id.
CREATE OR REPLACE FUNCTION fairpost.add_account(
    p_name text, p_address text, p_pool text, p_transport jsonb, p_display_name text DEFAULT NULL, p_batch_max integer DEFAULT 50,
    p_delay_ms integer DEFAULT 0, p_hourly_max integer DEFAULT NULL, p_daily_max integer DEFAULT NULL, p_now timestamptz DEFAULT NULL
) RETURNS bigint
LANGUAGE sql SET search_path = fairpost, pg_catalog, pg_temp AS $$
    INSERT INTO fairpost.routes (route) VALUES (p_pool), ('@' || p_name) ON CONFLICT DO NOTHING;
    WITH added AS (
        INSERT INTO fairpost.accounts (name, address, display_name, pool, transport, batch_max, delay_ms, hourly_max, daily_max, created_at)
        VALUES (p_name, p_address, p_display_name, p_pool, p_transport, p_batch_max, p_delay_ms, p_hourly_max, p_daily_max, coalesce(p_now, clock_timestamp()))
        RETURNING id)
    INSERT INTO fairpost.leases (account_id) SELECT id FROM added RETURNING account_id;
$$;
