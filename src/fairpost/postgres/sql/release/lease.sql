-- The fenced lease of an account. Its epoch only grows; every claim, renewal, begin and settle names it.

-- Takes the lease if nobody holds it, and recovers what the last holder left behind.
-- `taken` is false while another holds it; `until` says how long.
CREATE OR REPLACE FUNCTION fairpost.take_lease(
    p_account bigint, p_owner text, p_seconds double precision, p_now timestamptz DEFAULT NULL,
    OUT taken boolean, OUT epoch bigint, OUT until timestamptz, OUT now timestamptz
)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    lease fairpost.leases;
BEGIN
    SELECT * INTO lease FROM fairpost.leases l WHERE l.account_id = p_account FOR UPDATE;
    now := coalesce(p_now, clock_timestamp());
    taken := FOUND AND lease.until <= now;
    epoch := lease.epoch;
    until := lease.until;
    IF taken THEN
        epoch := lease.epoch + 1;
        until := now + make_interval(secs => p_seconds);
        IF EXISTS (SELECT FROM fairpost.accounts a WHERE a.id = p_account AND a.status IN ('paused', 'suspended') AND a.status_until <= now) THEN
            PERFORM fairpost.begin_sample(p_account);
        END IF;
        UPDATE fairpost.accounts a SET status = 'active', status_reason = NULL, status_until = NULL
        WHERE a.id = p_account AND a.status <> 'active' AND a.status_until <= now;   -- its time has come
        UPDATE fairpost.leases l SET epoch = take_lease.epoch, owner = p_owner, until = take_lease.until,
            revision = (SELECT a.revision FROM fairpost.accounts a WHERE a.id = p_account)
        WHERE l.account_id = p_account;
        PERFORM fairpost.recover(p_account, epoch, now);
    END IF;
END $$;

-- Prolongs a lease that is still held. Null: it is gone, stop.
CREATE OR REPLACE FUNCTION fairpost.renew_lease(p_account bigint, p_epoch bigint, p_seconds double precision, p_now timestamptz DEFAULT NULL)
RETURNS timestamptz
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    held timestamptz;
    t timestamptz;
BEGIN
    SELECT l.until INTO held FROM fairpost.leases l WHERE l.account_id = p_account AND l.epoch = p_epoch FOR UPDATE;
    t := coalesce(p_now, clock_timestamp());
    IF held IS NULL OR held <= t THEN
        RETURN NULL;
    END IF;
    UPDATE fairpost.leases l SET until = greatest(held, t + make_interval(secs => p_seconds)) WHERE l.account_id = p_account RETURNING l.until INTO held;
    RETURN held;
END $$;

-- Gives the lease back: what was claimed waits again at once.
CREATE OR REPLACE FUNCTION fairpost.drop_lease(p_account bigint, p_epoch bigint, p_now timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    t timestamptz;
BEGIN
    PERFORM FROM fairpost.leases l WHERE l.account_id = p_account AND l.epoch = p_epoch FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    t := coalesce(p_now, clock_timestamp());
    -- The epoch moves on, so that nothing this holder still has under way can change a row.
    UPDATE fairpost.leases l SET epoch = p_epoch + 1, owner = NULL, until = '-infinity' WHERE l.account_id = p_account;
    PERFORM fairpost.recover(p_account, p_epoch + 1, t);
    RETURN true;
END $$;

-- Frees what accounts whose lease ran out still hold, when nobody comes to take it over. Returns how many accounts.
CREATE OR REPLACE FUNCTION fairpost.reap_leases(p_now timestamptz DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    dead record;
    n integer := 0;
BEGIN
    FOR dead IN SELECT l.account_id, l.epoch FROM fairpost.leases l WHERE l.until <= coalesce(p_now, clock_timestamp())
                AND (l.owner IS NOT NULL OR EXISTS (SELECT FROM fairpost.queue q WHERE q.account_id = l.account_id AND NOT q.waiting AND q.state <> 'in_doubt'))
                ORDER BY l.account_id FOR UPDATE SKIP LOCKED LOOP
        PERFORM fairpost.drop_lease(dead.account_id, dead.epoch, p_now);
        n := n + 1;
    END LOOP;
    RETURN n;
END $$;
