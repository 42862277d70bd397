-- Settles one e-mail and begins the next in one commit. As long as the account sends without pauses, each e-mail costs one disk write and one change
-- to the lease row. Sending of the next e-mail begins only if the first e-mail was settled (or has disappeared in the meantime) and the lease is
-- still held. `settled` and the other columns are as in `settle` and `begin_send`.
DROP FUNCTION IF EXISTS fairpost.settle_and_begin(bigint, bigint, bigint, text, jsonb, bigint, jsonb, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.settle_and_begin(
    p_account bigint, p_epoch bigint, p_id bigint, p_outcome text, p_detail jsonb, p_next bigint, p_usage jsonb, p_now timestamptz DEFAULT NULL, p_step bigint DEFAULT NULL,
    OUT settled text, OUT verdict text, OUT skip text[], OUT attempt integer, OUT now timestamptz
)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    lease fairpost.leases;
    begun record;
    is_begun boolean := false;
    counted text;
BEGIN
    SELECT * INTO lease FROM fairpost.leases l WHERE l.account_id = p_account ORDER BY l.step DESC LIMIT 1 FOR NO KEY UPDATE;
    now := coalesce(p_now, clock_timestamp());
    IF lease.epoch = p_epoch AND lease.step <> p_step - 1 THEN
        settled := 'late';
        verdict := 'late';
        RETURN;
    END IF;
    settled := fairpost.settle_email(p_account, p_epoch, lease.epoch, p_id, p_outcome, p_detail, p_now, p_next);
    IF lease.server IS DISTINCT FROM pg_postmaster_start_time() THEN
        verdict := 'unconfirmed';
    ELSIF settled NOT IN ('settled', 'gone') OR lease.epoch IS DISTINCT FROM p_epoch OR lease.until <= now THEN
        verdict := 'stale';
    ELSE
        begun := fairpost.begin_email(lease, p_next, NULL, p_now);
        verdict := begun.verdict;
        skip := begun.skip;
        attempt := begun.attempt;
        now := begun.now;
        is_begun := verdict = 'begun';
    END IF;
    IF settled IN ('settled', 'evidence') OR is_begun THEN
        counted := fairpost.count_step(p_account, lease.step, settled, p_outcome, p_detail, CASE WHEN is_begun THEN p_next END, p_usage, now);
    END IF;
END $$;
