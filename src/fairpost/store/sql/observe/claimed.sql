-- Returns the number of e-mails that each account has claimed. `undecided` is the number of e-mails in doubt that no policy will settle, so a person
-- must decide. Uses the index queue_held, so the cost depends on the number of claimed e-mails, never on the number of waiting e-mails.
CREATE OR REPLACE FUNCTION fairpost.claimed_by_account() RETURNS TABLE (account_id bigint, claimed bigint, sending bigint, in_doubt bigint, undecided bigint)
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT q.account_id, count(*) FILTER (WHERE q.state = 'claimed'), count(*) FILTER (WHERE q.state = 'sending'), count(*) FILTER (WHERE q.state = 'in_doubt'),
           count(*) FILTER (WHERE q.state = 'in_doubt' AND (q.on_doubt = 'hold' OR q.attempts >= q.attempts_max))
    FROM fairpost.queue q WHERE NOT q.waiting GROUP BY q.account_id
$$;

-- Returns the time at which each of these accounts started sending its current e-mail. Accounts that are not sending are omitted. The cost depends
-- on the number of e-mails that they have claimed.
CREATE OR REPLACE FUNCTION fairpost.on_the_wire(p_accounts bigint[]) RETURNS TABLE (account_id bigint, begun_at timestamptz)
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT q.account_id, min(q.begun_at) FROM fairpost.queue q
    WHERE NOT q.waiting AND q.account_id = ANY (p_accounts) AND q.state = 'sending' GROUP BY q.account_id
$$;
