-- A new sender account, with its lease and the routes it serves. Returns its id.
-- `p_id` is for a secret that was sealed for this id, and `p_keys` are the keys that were in use then (see secrets.sql).
DROP FUNCTION IF EXISTS fairpost.add_account(text, text, text, jsonb, text, integer, integer, integer, integer, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.add_account(
    p_name text, p_address text, p_pool text, p_transport jsonb, p_display_name text DEFAULT NULL, p_batch_max integer DEFAULT 50,
    p_delay_ms integer DEFAULT 0, p_hourly_max integer DEFAULT NULL, p_daily_max integer DEFAULT NULL, p_now timestamptz DEFAULT NULL,
    p_id bigint DEFAULT NULL, p_keys text[] DEFAULT NULL
) RETURNS bigint
LANGUAGE sql SET search_path = fairpost, pg_catalog, pg_temp AS $$
    SELECT fairpost.expect_keys(p_keys);
    INSERT INTO fairpost.routes (route) VALUES (p_pool), ('@' || p_name) ON CONFLICT DO NOTHING;
    WITH added AS (
        INSERT INTO fairpost.accounts (id, name, address, display_name, pool, transport, batch_max, delay_ms, hourly_max, daily_max, created_at)
        OVERRIDING SYSTEM VALUE
        VALUES (coalesce(p_id, fairpost.next_account_id()), p_name, p_address, p_display_name, p_pool, p_transport, p_batch_max, p_delay_ms, p_hourly_max, p_daily_max, coalesce(p_now, clock_timestamp()))
        RETURNING id)
    INSERT INTO fairpost.leases (account_id) SELECT id FROM added RETURNING account_id;
$$;

CREATE OR REPLACE FUNCTION fairpost.next_account_id() RETURNS bigint
LANGUAGE sql SET search_path = fairpost, pg_catalog, pg_temp AS $$
    SELECT nextval(pg_get_serial_sequence('fairpost.accounts', 'id'))
$$;

-- Changes what `p_changes` names, by the columns of the table, and `secret` beside `transport`: the password of a server
-- stays unless it is named. Returns the account's id; null: there is none.
CREATE OR REPLACE FUNCTION fairpost.change_account(p_name text, p_changes jsonb, p_keys text[] DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    changed bigint;
BEGIN
    PERFORM fairpost.expect_keys(p_keys);
    INSERT INTO fairpost.routes (route) SELECT p_changes ->> 'pool' WHERE p_changes ? 'pool' ON CONFLICT DO NOTHING;
    UPDATE fairpost.accounts a SET
        (address, display_name, pool, status, status_reason, batch_max, delay_ms, hourly_max, daily_max, transport) = (
            SELECT n.address, n.display_name, n.pool, n.status, n.status_reason, n.batch_max, n.delay_ms, n.hourly_max, n.daily_max,
                   (n.transport - 'secret') || jsonb_strip_nulls(jsonb_build_object('secret',
                       CASE WHEN p_changes ? 'secret' THEN p_changes -> 'secret' ELSE a.transport -> 'secret' END))
            FROM jsonb_populate_record(a, p_changes) n)
    WHERE a.name = p_name RETURNING a.id INTO changed;
    RETURN changed;
END $$;

-- Removes an account that has nothing in hand and nothing waiting for it alone; else says how much, and changes nothing.
-- The lease's row is locked first, as by everybody who claims: nothing comes into its hands meanwhile.
CREATE OR REPLACE FUNCTION fairpost.remove_account(
    p_name text, OUT known boolean, OUT removed boolean, OUT in_hand bigint, OUT in_doubt bigint, OUT pinned bigint
)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    account bigint;
BEGIN
    SELECT l.account_id INTO account FROM fairpost.leases l JOIN fairpost.accounts a ON a.id = l.account_id
    WHERE a.name = p_name FOR UPDATE OF l;
    known := account IS NOT NULL;
    SELECT count(*) FILTER (WHERE q.state <> 'in_doubt'), count(*) FILTER (WHERE q.state = 'in_doubt') INTO in_hand, in_doubt
    FROM fairpost.queue q WHERE q.account_id = account AND NOT q.waiting;
    SELECT coalesce(sum(w.waiting), 0) INTO pinned FROM fairpost.waiting_by_route() w WHERE w.route = '@' || p_name;
    removed := known AND in_hand + in_doubt + pinned = 0;
    IF removed THEN
        DELETE FROM fairpost.accounts a WHERE a.id = account;
    END IF;
END $$;
