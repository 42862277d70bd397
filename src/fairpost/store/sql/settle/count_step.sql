-- Updates the lease row, which is already locked, after a step. Writes the step number, the counts of sent and failed e-mails, and the account's
-- usage. All counting for `settle`, `begin_send` and `settle_and_begin` happens here. `p_settled` is the result of `settle_email`, or NULL if no
-- e-mail was settled. `p_begun` is the e-mail whose sending has started, with the resulting usage, or NULL. An outcome that is merely late evidence
-- does not affect limits and does not count as a step. The commit always waits for the disk.
CREATE OR REPLACE FUNCTION fairpost.count_step(
    p_account bigint, p_lease_step bigint, p_settled text, p_outcome text, p_detail jsonb, p_begun bigint, p_usage jsonb, p_now timestamptz
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    is_settled CONSTANT boolean := coalesce(p_settled = 'settled', false);
    is_begun CONSTANT boolean := p_begun IS NOT NULL;
    is_sent CONSTANT boolean := coalesce(p_settled IN ('settled', 'evidence') AND p_outcome = 'sent', false);
    untouched CONSTANT integer := (is_settled AND p_outcome = 'untouched')::integer;
    day CONSTANT timestamptz := p_usage ->> 'day_started_at';
    done text;
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN   -- may have been left in the session by another client of a pooler
        done := set_config('synchronous_commit', 'on', true);
    END IF;
    UPDATE fairpost.leases l SET
        step = l.step + (is_settled OR is_begun)::integer,
        deaths = CASE WHEN is_settled AND is_sent THEN 0 ELSE l.deaths END,
        sent_total = l.sent_total + is_sent::integer,
        day_bounces = CASE WHEN is_begun AND l.day_started_at IS DISTINCT FROM day THEN 0
            WHEN is_settled THEN l.day_bounces + coalesce(jsonb_array_length(p_detail -> 'bounced'), 0) ELSE l.day_bounces END,
        day_errors = CASE WHEN is_begun AND l.day_started_at IS DISTINCT FROM day THEN 0
            ELSE l.day_errors + (is_settled AND p_outcome IN ('failed', 'retry', 'in_doubt'))::integer END,
        hour_started_at = CASE WHEN is_begun THEN (p_usage ->> 'hour_started_at')::timestamptz ELSE l.hour_started_at END,
        hour_used = CASE WHEN is_begun THEN (p_usage ->> 'hour_used')::integer ELSE greatest(0, l.hour_used - untouched) END,
        day_started_at = CASE WHEN is_begun THEN day ELSE l.day_started_at END,
        day_used = CASE WHEN is_begun THEN (p_usage ->> 'day_used')::integer ELSE greatest(0, l.day_used - untouched) END,
        gap_roll = CASE WHEN is_begun THEN coalesce((p_usage ->> 'gap_roll')::double precision, 0) ELSE l.gap_roll END,
        warm_day = CASE WHEN is_begun THEN coalesce((p_usage ->> 'warm_day')::integer, l.warm_day) ELSE l.warm_day END,
        last_begun_at = CASE WHEN is_begun THEN p_now ELSE l.last_begun_at END
    WHERE l.account_id = p_account AND l.step = p_lease_step;
    IF is_begun AND p_usage ? 'units' THEN
        PERFORM fairpost.charge(p_account, p_begun, (p_usage ->> 'units')::integer, p_now);
    END IF;
END $$;
