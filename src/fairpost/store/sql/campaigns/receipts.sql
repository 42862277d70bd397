-- Returns the outcomes of a campaign's e-mails that are in the given states, optionally for one prospect, ordered by id. The e-mails in each state
-- are read from an index in this order, so every page costs the same. Runs with its owner's privileges, because under a workspace's row policies,
-- PostgreSQL would not use an index for states. Needs the indexes emails_campaign_missed, emails_of_prospect, queue_of_prospect and queue_parked, and
-- the primary keys.
DROP FUNCTION IF EXISTS fairpost.receipts(bigint, text[], bigint, integer, bigint, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.receipts(
    p_campaign bigint, p_states text[], p_after bigint, p_max integer, p_prospect bigint DEFAULT NULL, p_now timestamptz DEFAULT NULL
) RETURNS TABLE (email_id bigint, step smallint, address text, prospect_id bigint, state text, reason text, reason_params jsonb, account text, at timestamptz, attempts smallint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    missed CONSTANT fairpost.email_state[] := ARRAY(SELECT s FROM unnest(p_states) s WHERE s <> 'sent' AND s = ANY (enum_range(NULL::fairpost.email_state)::text[]));
BEGIN
    PERFORM fairpost.require_own_campaign(p_campaign);
    RETURN QUERY
    SELECT x.id, x.step, x.addresses[1], x.prospect_id, x.state, x.reason, x.reason_params, a.name, x.at, x.attempts
    FROM (
        (SELECT e.id, e.step, e.addresses, e.prospect_id, e.state::text, e.reason, e.reason_params, e.account_id, e.finished_at AS at, e.attempts
         FROM unnest(missed) s CROSS JOIN LATERAL (
             SELECT * FROM fairpost.emails e WHERE e.campaign_id = p_campaign AND e.state <> 'sent' AND e.state = s AND e.id > p_after
             AND (p_prospect IS NULL OR e.prospect_id = p_prospect) ORDER BY e.id LIMIT p_max) e)
        UNION ALL
        (SELECT e.id, e.step, e.addresses, e.prospect_id, e.state::text, e.reason, e.reason_params, e.account_id, e.finished_at, e.attempts
         FROM fairpost.emails e WHERE 'sent' = ANY (p_states) AND e.campaign_id = p_campaign AND e.state = 'sent' AND e.id > p_after
         AND (p_prospect IS NULL OR e.prospect_id = p_prospect) ORDER BY e.id LIMIT p_max)
        UNION ALL
        (SELECT h.id, h.step, h.addresses, h.prospect_id, h.state::text, fairpost.code_in(h.last_error), fairpost.params_in(h.last_error), h.account_id, h.begun_at, h.attempts
         FROM (SELECT * FROM fairpost.queue q WHERE NOT q.waiting OFFSET 0) h
         WHERE h.campaign_id = p_campaign AND h.state::text = ANY (p_states) AND h.id > p_after AND (p_prospect IS NULL OR h.prospect_id = p_prospect)
         ORDER BY h.id LIMIT p_max)
        UNION ALL
        (SELECT q.id, q.step, q.addresses, q.prospect_id, 'parked', fairpost.code_in(q.last_error), fairpost.params_in(q.last_error), q.account_id,
                coalesce(fairpost.next_open(w.open, nullif(q.parked_due, 'infinity')), nullif(q.due_at, 'infinity')), q.attempts
         FROM fairpost.queue q JOIN fairpost.campaign_streams w ON w.workspace = q.workspace AND w.stream = q.stream
         WHERE 'parked' = ANY (p_states) AND q.campaign_id = p_campaign AND q.parked_due IS NOT NULL AND q.waiting AND q.id > p_after
         AND (p_prospect IS NULL OR q.prospect_id = p_prospect) ORDER BY q.id LIMIT p_max)
        UNION ALL
        (SELECT q.id, q.step, q.addresses, q.prospect_id, 'ready', fairpost.code_in(q.last_error), fairpost.params_in(q.last_error), q.account_id, coalesce(fairpost.next_open(w.open, q.due_at), q.due_at), q.attempts
         FROM fairpost.queue q JOIN fairpost.campaign_streams w ON w.workspace = q.workspace AND w.stream = q.stream
         WHERE 'ready' = ANY (p_states) AND q.campaign_id = p_campaign AND q.waiting AND q.parked_due IS NULL AND q.due_at <= t AND q.id > p_after
         AND (p_prospect IS NULL OR q.prospect_id = p_prospect) ORDER BY q.id LIMIT p_max)
        UNION ALL
        (SELECT q.id, q.step, q.addresses, q.prospect_id, 'scheduled', fairpost.code_in(q.last_error), fairpost.params_in(q.last_error), q.account_id, coalesce(fairpost.next_open(w.open, q.due_at), q.due_at), q.attempts
         FROM fairpost.queue q JOIN fairpost.campaign_streams w ON w.workspace = q.workspace AND w.stream = q.stream
         WHERE 'scheduled' = ANY (p_states) AND q.campaign_id = p_campaign AND q.waiting AND q.parked_due IS NULL AND q.due_at > t AND q.due_at < 'infinity' AND q.id > p_after
         AND (p_prospect IS NULL OR q.prospect_id = p_prospect) ORDER BY q.id LIMIT p_max)
        UNION ALL
        (SELECT q.id, q.step, q.addresses, q.prospect_id, 'to_follow', fairpost.code_in(q.last_error), fairpost.params_in(q.last_error), q.account_id, NULL::timestamptz, q.attempts
         FROM fairpost.queue q JOIN fairpost.campaign_streams w ON w.workspace = q.workspace AND w.stream = q.stream
         WHERE 'to_follow' = ANY (p_states) AND q.campaign_id = p_campaign AND q.waiting AND q.parked_due IS NULL AND q.due_at = 'infinity' AND q.id > p_after
         AND (p_prospect IS NULL OR q.prospect_id = p_prospect) ORDER BY q.id LIMIT p_max)
    ) x LEFT JOIN fairpost.accounts a ON a.id = x.account_id ORDER BY x.id LIMIT p_max;
END $$;
