-- The fenced lease of an account. The lease's epoch only ever increases, and every claim, renewal, begin and settle specifies the epoch.

-- Takes the lease if it is free, and recovers e-mails that the previous holder left behind. `taken` is false while another worker holds the lease
-- (until `until`), or while this server is not confirmed. `p_again` means that the same worker has asked before but did not get the response. If that
-- call took the lease, the worker keeps it.
DROP FUNCTION IF EXISTS fairpost.take_lease(bigint, text, double precision, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.take_lease(
    p_account bigint, p_owner text, p_seconds double precision, p_now timestamptz DEFAULT NULL, p_again boolean DEFAULT false,
    OUT taken boolean, OUT epoch bigint, OUT until timestamptz, OUT now timestamptz, OUT step bigint
)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    lease fairpost.leases;
BEGIN
    SELECT * INTO lease FROM fairpost.leases l WHERE l.account_id = p_account ORDER BY l.step DESC LIMIT 1 FOR UPDATE;
    now := coalesce(p_now, clock_timestamp());
    taken := FOUND AND (lease.until <= now OR p_again AND lease.owner = p_owner) AND fairpost.is_confirmed();
    epoch := lease.epoch;
    until := lease.until;
    step := lease.step;
    IF taken THEN
        epoch := lease.epoch + 1;
        until := now + make_interval(secs => p_seconds);
        IF EXISTS (SELECT FROM fairpost.accounts a WHERE a.id = p_account AND a.status IN ('paused', 'suspended') AND a.status_until <= now) THEN
            PERFORM fairpost.begin_sample(p_account);
        END IF;
        UPDATE fairpost.accounts a SET status = 'active', status_reason = NULL, status_params = NULL, status_until = NULL, is_stopped_by_operator = false
        WHERE a.id = p_account AND a.status <> 'active' AND a.status_until <= now;   -- the status has ended
        UPDATE fairpost.leases l SET epoch = take_lease.epoch, owner = p_owner, until = take_lease.until, server = pg_postmaster_start_time(),
            revision = (SELECT a.revision FROM fairpost.accounts a WHERE a.id = p_account)
        WHERE l.account_id = p_account AND l.step = lease.step;
        PERFORM fairpost.recover(p_account, epoch);
        PERFORM fairpost.forget_charges(p_account, now);
    END IF;
END $$;

-- Resumes a lease after a database outage, even if it has expired, unless another worker has taken it. E-mails that the lease holder had claimed but
-- had not yet started sending are returned to the queue. `sending` is the e-mail whose sending had started, with its `attempt`. The step advances, so
-- that statements still running on a lost connection have no effect. `p_step` is the last step that the holder has recorded, and `p_life` is the life
-- of the database in which that step was taken. `verdict` is `held`, `lost`, `unconfirmed` (this server is not confirmed yet) or `behind` (commits
-- are missing here).
CREATE OR REPLACE FUNCTION fairpost.take_up(
    p_account bigint, p_epoch bigint, p_seconds double precision, p_life uuid, p_step bigint, p_now timestamptz DEFAULT NULL,
    OUT verdict text, OUT until timestamptz, OUT step bigint, OUT sending bigint, OUT attempt integer, OUT life uuid, OUT now timestamptz
)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    lease fairpost.leases;
    claimed bigint[];
BEGIN
    SELECT * INTO lease FROM fairpost.leases l WHERE l.account_id = p_account FOR UPDATE;
    now := coalesce(p_now, clock_timestamp());
    step := lease.step;
    life := fairpost.current_life();
    verdict := CASE
        WHEN coalesce(lease.step, -1) < p_step AND p_life = life THEN 'behind'
        WHEN NOT fairpost.is_confirmed() THEN 'unconfirmed'
        WHEN lease.epoch IS DISTINCT FROM p_epoch THEN 'lost'
        ELSE 'held' END;
    IF verdict <> 'held' THEN
        RETURN;
    END IF;
    step := lease.step + 1;
    until := greatest(lease.until, now + make_interval(secs => p_seconds));
    UPDATE fairpost.leases l SET until = take_up.until, step = take_up.step, server = pg_postmaster_start_time() WHERE l.account_id = p_account;
    claimed := ARRAY(SELECT q.id FROM fairpost.queue q
                     WHERE q.account_id BETWEEN p_account AND p_account AND NOT q.waiting AND q.epoch = p_epoch AND q.state = 'claimed'
                     ORDER BY q.account_id, q.id FOR UPDATE SKIP LOCKED);   -- same as in recover.sql
    UPDATE fairpost.queue q SET state = 'waiting', waiting = true, claimed_at = NULL WHERE q.id = ANY (claimed);
    PERFORM fairpost.note(claimed, 1, true);
    SELECT q.id, q.attempts INTO sending, attempt FROM fairpost.queue q
    WHERE q.account_id = p_account AND NOT q.waiting AND q.epoch = p_epoch AND q.state = 'sending';
END $$;

-- Extends a lease that is still held. Null means that the lease is gone and the worker must stop.
CREATE OR REPLACE FUNCTION fairpost.renew_lease(p_account bigint, p_epoch bigint, p_seconds double precision, p_now timestamptz DEFAULT NULL)
RETURNS timestamptz
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    held timestamptz;
    held_step bigint;
    t timestamptz;
BEGIN
    SELECT l.until, l.step INTO held, held_step FROM fairpost.leases l WHERE l.account_id = p_account AND l.epoch = p_epoch ORDER BY l.step DESC LIMIT 1 FOR UPDATE;
    t := coalesce(p_now, clock_timestamp());
    IF held IS NULL OR held <= t THEN
        RETURN NULL;
    END IF;
    UPDATE fairpost.leases l SET until = greatest(held, t + make_interval(secs => p_seconds)) WHERE l.account_id = p_account AND l.step = held_step RETURNING l.until INTO held;
    PERFORM fairpost.forget_charges(p_account, t);
    RETURN held;
END $$;

-- Releases the lease. The claimed e-mails immediately go back to the queue.
CREATE OR REPLACE FUNCTION fairpost.drop_lease(p_account bigint, p_epoch bigint, p_now timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    held_step bigint;
    is_all_free boolean;
BEGIN
    SELECT l.step INTO held_step FROM fairpost.leases l WHERE l.account_id = p_account AND l.epoch = p_epoch ORDER BY l.step DESC LIMIT 1 FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    is_all_free := fairpost.recover(p_account, p_epoch + 1);
    -- The epoch advances, so that no statement of this holder that is still in progress can change a row. If an e-mail remains, the lease keeps its
    -- owner and is reaped later.
    UPDATE fairpost.leases l SET epoch = p_epoch + 1, owner = CASE WHEN is_all_free THEN NULL ELSE coalesce(l.owner, 'unknown') END, until = '-infinity'
    WHERE l.account_id = p_account AND l.step = held_step;
    RETURN true;
END $$;

-- Releases the e-mails of accounts whose lease has expired without being taken over. Returns the number of accounts.
CREATE OR REPLACE FUNCTION fairpost.reap_leases(p_now timestamptz DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    dead record;
    n integer := 0;
BEGIN
    FOR dead IN SELECT l.account_id, l.epoch FROM fairpost.accounts a CROSS JOIN LATERAL (
                    SELECT l.account_id, l.epoch, l.owner, l.until FROM fairpost.leases l WHERE l.account_id = a.id ORDER BY l.step DESC LIMIT 1) l
                WHERE l.until <= coalesce(p_now, clock_timestamp()) AND l.owner IS NOT NULL
                ORDER BY l.account_id LOOP
        PERFORM FROM fairpost.leases l WHERE l.account_id = dead.account_id AND l.epoch = dead.epoch AND l.until <= coalesce(p_now, clock_timestamp())
        ORDER BY l.step DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        PERFORM fairpost.drop_lease(dead.account_id, dead.epoch, p_now);
        n := n + 1;
    END LOOP;
    PERFORM fairpost.forget_resolved();
    RETURN n;
END $$;

-- Records the death of a process that ran only this account's worker and whose death has no other known cause. Counts consecutive deaths across all
-- engines. A sent e-mail resets the count. At `p_deaths_max`, the account is suspended. Returns the current count.
DROP FUNCTION IF EXISTS fairpost.worker_died(bigint, bigint, boolean, integer, text, timestamptz);
DROP FUNCTION IF EXISTS fairpost.worker_died(bigint, bigint, boolean, integer, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.worker_died(p_account bigint, p_deaths_max integer, p_now timestamptz DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    n integer;
BEGIN
    UPDATE fairpost.leases l SET deaths = least(l.deaths + 1, 1000), died_at = coalesce(p_now, clock_timestamp()) WHERE l.account_id = p_account
    RETURNING l.deaths INTO n;
    IF n >= p_deaths_max THEN
        PERFORM fairpost.set_status(p_account, NULL, 'suspended', 'account.worker_died', jsonb_build_object('times', n), p_now => p_now);
    END IF;
    RETURN coalesce(n, 0);
END $$;
