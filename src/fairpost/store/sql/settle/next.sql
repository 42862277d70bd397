-- One e-mail settled and the next begun in one commit: with no pause between two sends, each costs one write to disk, and
-- the lease's row changes once. The next is begun only where the first was settled (or had gone meanwhile), and the lease
-- still holds; `settled` and the rest as `settle` and `begin_send` say it.
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
    day CONSTANT timestamptz := p_usage ->> 'day_started_at';
BEGIN
    SELECT * INTO lease FROM fairpost.leases l WHERE l.account_id = p_account ORDER BY l.step DESC LIMIT 1 FOR NO KEY UPDATE;
    now := coalesce(p_now, clock_timestamp());
    IF lease.epoch = p_epoch AND lease.step <> p_step - 1 THEN
        settled := 'late';
        verdict := 'late';
        RETURN;
    END IF;
    settled := fairpost.settle_email(p_account, p_epoch, lease.epoch, p_id, p_outcome, p_detail, p_now);
    IF lease.server IS DISTINCT FROM pg_postmaster_start_time() THEN
        verdict := 'unconfirmed';
    ELSIF settled NOT IN ('settled', 'gone') OR lease.epoch IS DISTINCT FROM p_epoch OR lease.until <= now THEN
        verdict := 'stale';
    ELSE
        begun := fairpost.begin_email(lease, p_next, NULL, now);
        verdict := begun.verdict;
        skip := begun.skip;
        attempt := begun.attempt;
        is_begun := verdict = 'begun';
    END IF;
    IF settled IN ('settled', 'evidence') OR is_begun THEN
        UPDATE fairpost.leases l SET
            step = l.step + (settled = 'settled' OR is_begun)::integer, deaths = CASE WHEN settled = 'settled' AND p_outcome = 'sent' THEN 0 ELSE l.deaths END,
            sent_total = l.sent_total + (settled IN ('settled', 'evidence') AND p_outcome = 'sent')::integer,
            day_bounces = CASE WHEN is_begun AND l.day_started_at IS DISTINCT FROM day THEN 0
                ELSE l.day_bounces + CASE WHEN settled = 'settled' THEN coalesce(jsonb_array_length(p_detail -> 'bounced'), 0) ELSE 0 END END,
            day_errors = CASE WHEN is_begun AND l.day_started_at IS DISTINCT FROM day THEN 0
                ELSE l.day_errors + (settled = 'settled' AND p_outcome IN ('failed', 'retry', 'in_doubt'))::integer END,
            hour_started_at = CASE WHEN is_begun THEN (p_usage ->> 'hour_started_at')::timestamptz ELSE l.hour_started_at END,
            day_started_at = CASE WHEN is_begun THEN day ELSE l.day_started_at END,
            hour_used = CASE WHEN is_begun THEN (p_usage ->> 'hour_used')::integer
                ELSE greatest(0, l.hour_used - (p_outcome = 'untouched')::integer) END,
            day_used = CASE WHEN is_begun THEN (p_usage ->> 'day_used')::integer
                ELSE greatest(0, l.day_used - (p_outcome = 'untouched')::integer) END,
            gap_roll = CASE WHEN is_begun THEN coalesce((p_usage ->> 'gap_roll')::double precision, 0) ELSE l.gap_roll END,
            warm_day = CASE WHEN is_begun THEN coalesce((p_usage ->> 'warm_day')::integer, l.warm_day) ELSE l.warm_day END,
            last_begun_at = CASE WHEN is_begun THEN settle_and_begin.now ELSE l.last_begun_at END
        WHERE l.account_id = p_account AND l.step = lease.step;
    END IF;
    IF is_begun AND p_usage ? 'units' THEN
        PERFORM fairpost.charge(p_account, p_next, (p_usage ->> 'units')::integer, now);
    END IF;
END $$;
