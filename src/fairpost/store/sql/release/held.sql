-- Returns the e-mails that a lease holds and whose sending has not started. Called after the response to a claim was lost, or for an e-mail that was
-- locked by a cancellation. E-mails that an earlier lease on the account left in this state now belong to this lease. Returns null if the lease is
-- gone.
CREATE OR REPLACE FUNCTION fairpost.held(p_account bigint, p_epoch bigint, p_now timestamptz DEFAULT NULL) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    lease fairpost.leases;
    ids bigint[];
BEGIN
    SELECT * INTO lease FROM fairpost.leases l WHERE l.account_id = p_account ORDER BY l.step DESC LIMIT 1 FOR UPDATE;   -- also waits until a claim for several accounts has ended
    IF lease.epoch IS DISTINCT FROM p_epoch OR lease.until <= coalesce(p_now, clock_timestamp()) THEN
        RETURN NULL;
    END IF;
    ids := ARRAY(SELECT q.id FROM fairpost.queue q   -- same as in recover.sql
                 WHERE q.account_id BETWEEN p_account AND p_account AND NOT q.waiting AND q.state = 'claimed' ORDER BY q.account_id, q.id FOR UPDATE SKIP LOCKED);
    UPDATE fairpost.queue q SET epoch = p_epoch WHERE q.id = ANY (ids) AND q.epoch <> p_epoch;
    RETURN ids;
END $$;
