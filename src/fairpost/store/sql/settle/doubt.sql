-- Resolves e-mails in doubt. The outcome is never guessed. The outcome is decided by the policy, by a provider that can be asked, or by a person.

-- Returns an account's e-mails in doubt, oldest first. The e-mails are read from `doubtful`, so the cost depends on the number of e-mails in doubt. A
-- search through the e-mails that accounts hold would also read the entries for all e-mails sent while a transaction was held open.
CREATE OR REPLACE FUNCTION fairpost.doubts(p_account bigint, p_max integer) RETURNS SETOF fairpost.queue
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT q.* FROM (SELECT d.email_id FROM fairpost.doubtful d WHERE d.account_id = p_account GROUP BY d.email_id ORDER BY d.email_id) d
    CROSS JOIN LATERAL (SELECT * FROM fairpost.queue q WHERE q.id = d.email_id OFFSET 0) q
    WHERE q.account_id = p_account AND q.state = 'in_doubt' ORDER BY d.email_id LIMIT p_max
$$;

-- Returns whether an e-mail in doubt is still waiting for a search of its account's mailbox. The reader looks for the e-mail in the mailbox after 10
-- seconds and after a minute (see maintenance/mailboxes.py). The e-mail waits only if the mailbox can be read, and for at most 90 seconds, because
-- the reader may be dead.
CREATE OR REPLACE FUNCTION fairpost.awaits_mailbox(p_account bigint, p_evidence jsonb, p_since timestamptz) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT p_evidence IS NULL AND p_since > clock_timestamp() - interval '90 seconds' AND EXISTS (
        SELECT FROM fairpost.mailbox_reads r JOIN fairpost.accounts a ON a.id = r.account_id
        WHERE r.account_id = p_account AND r.looked_at IS NOT NULL AND r.reason IS NULL AND a.transport @> '{"read": true}')
$$;

-- Returns the e-mails in doubt that must be sent again now, and how long each has been in doubt. A null `p_account` means all accounts.
CREATE OR REPLACE FUNCTION fairpost.doubts_to_resend(p_account bigint DEFAULT NULL) RETURNS TABLE (email_id bigint, account_id bigint, waited interval)
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT q.id, q.account_id, clock_timestamp() - d.since
    FROM (SELECT d.account_id, d.email_id, max(d.since) AS since FROM fairpost.doubtful d WHERE p_account IS NULL OR d.account_id = p_account GROUP BY d.account_id, d.email_id) d
    CROSS JOIN LATERAL (SELECT * FROM fairpost.queue q WHERE q.id = d.email_id OFFSET 0) q
    WHERE q.account_id = d.account_id AND q.state = 'in_doubt' AND q.on_doubt = 'resend' AND q.attempts < q.attempts_max
        AND (q.evidence IS NULL OR q.evidence ? 'unknown') AND NOT fairpost.awaits_mailbox(q.account_id, q.evidence, d.since)
    ORDER BY q.id LIMIT 1000
$$;
DROP FUNCTION IF EXISTS fairpost.accounts_in_doubt();

-- Returns the accounts that have e-mails in doubt and whose workers can ask the provider about them.
CREATE OR REPLACE FUNCTION fairpost.accounts_to_ask() RETURNS SETOF bigint
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT DISTINCT q.account_id FROM fairpost.doubtful d CROSS JOIN LATERAL (SELECT * FROM fairpost.queue q WHERE q.id = d.email_id OFFSET 0) q
    WHERE q.state = 'in_doubt' AND q.evidence IS NOT NULL AND NOT q.evidence ? 'unknown'
$$;

-- Deletes the entries for e-mails that are no longer in doubt.
CREATE OR REPLACE FUNCTION fairpost.forget_resolved() RETURNS void
LANGUAGE sql AS $$
    DELETE FROM fairpost.doubtful d WHERE d.ctid = ANY (ARRAY(
        SELECT d.ctid FROM fairpost.doubtful d
        WHERE (SELECT true FROM fairpost.queue q WHERE q.id = d.email_id AND q.account_id = d.account_id AND q.state = 'in_doubt' LIMIT 1) IS NULL
        ORDER BY d.account_id, d.email_id))   -- in index order, because otherwise only a sequential scan would be possible
$$;

-- Returns whether an e-mail in doubt could be sent now, and which recipients to skip. `verdict` is the same as for `begin_send`. Changes nothing.
CREATE OR REPLACE FUNCTION fairpost.recheck(p_id bigint, p_now timestamptz DEFAULT NULL, OUT verdict text, OUT skip text[], OUT now timestamptz)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    email fairpost.queue;
BEGIN
    now := coalesce(p_now, clock_timestamp());
    SELECT * INTO email FROM fairpost.queue q WHERE q.id = p_id AND q.state = 'in_doubt';
    IF NOT FOUND THEN
        verdict := 'gone';
        RETURN;
    END IF;
    skip := fairpost.suppressed(email.workspace, email.addresses, email.class);
    verdict := CASE WHEN email.expires_at <= now THEN 'expired' WHEN email.addresses <@ skip THEN 'suppressed'
        WHEN fairpost.is_barred(email.workspace, email.domain, email.user_name, email.stream, now)
            OR EXISTS (SELECT FROM fairpost.blocks b WHERE b.account_id = email.account_id AND b.workspace = email.workspace AND b.until > recheck.now) THEN 'held'
        WHEN email.campaign_id IS NOT NULL AND (fairpost.is_stopped(email.prospect_id, email.campaign_id)
            OR EXISTS (SELECT FROM fairpost.campaigns c WHERE c.id = email.campaign_id AND c.state = 'cancelled')) THEN 'gone'
        WHEN email.campaign_id IS NOT NULL AND NOT EXISTS (
            SELECT FROM fairpost.campaigns c JOIN fairpost.campaign_streams s ON s.workspace = email.workspace AND s.stream = email.stream
            WHERE c.id = email.campaign_id AND c.state IN ('scheduled', 'running', 'completed') AND coalesce(s.open @> now, true)) THEN 'held'
        ELSE 'begun' END;
END $$;

-- Records that the provider was asked but does not know the outcome. From now on, the e-mail's policy or a person decides.
CREATE OR REPLACE FUNCTION fairpost.leave_in_doubt(p_id bigint, p_why text) RETURNS void
LANGUAGE sql SET search_path = fairpost, pg_catalog, pg_temp AS $$
    UPDATE fairpost.queue q SET last_error = fairpost.in_one('email.outcome_unknown', jsonb_strip_nulls(jsonb_build_object('error', left(p_why, 1000)))), evidence = q.evidence || jsonb_build_object('unknown', coalesce(left(p_why, 2000), ''))
    WHERE q.id = p_id AND q.state = 'in_doubt'
$$;

-- Resolves an e-mail in doubt. `p_decision` is `sent`, `failed`, or `resend`, which logs the doubt and makes the e-mail wait until `p_due_at`.
-- Returns the new state, or null if the e-mail is not in doubt.
CREATE OR REPLACE FUNCTION fairpost.resolve(
    p_id bigint, p_decision text, p_by text, p_due_at timestamptz DEFAULT NULL, p_detail jsonb DEFAULT '{}', p_now timestamptz DEFAULT NULL
) RETURNS fairpost.email_state
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    email fairpost.queue;
    t timestamptz;
BEGIN
    PERFORM fairpost.require_own_email(p_id);
    IF p_decision = 'sent' THEN   -- the counts of the lease change below; as everywhere, the lease is locked first
        PERFORM FROM fairpost.leases l WHERE l.account_id = (SELECT q.account_id FROM fairpost.queue q WHERE q.id = p_id) FOR NO KEY UPDATE;
    END IF;
    SELECT * INTO email FROM fairpost.queue q WHERE q.id = p_id AND q.state = 'in_doubt' FOR UPDATE;
    t := coalesce(p_now, clock_timestamp());
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO fairpost.events (at, kind, workspace, subject, detail)
    VALUES (t, 'resolved', email.workspace, 'email ' || p_id, jsonb_build_object('decision', p_decision, 'by', p_by, 'attempt', email.attempts));
    CASE p_decision
    WHEN 'sent' THEN
        PERFORM fairpost.log_attempt(email, 'sent', p_detail, t);
        UPDATE fairpost.leases l SET sent_total = l.sent_total + 1 WHERE l.account_id = email.account_id;
        PERFORM fairpost.finish(p_id, 'sent', 'email.resolved_as_sent', t, p_detail ->> 'message_id', p_detail ->> 'thread_id', jsonb_build_object('by', p_by));
        RETURN 'sent';
    WHEN 'failed' THEN
        PERFORM fairpost.log_attempt(email, 'in_doubt', p_detail, t);
        PERFORM fairpost.finish(p_id, 'failed', 'email.resolved_as_failed', t, p_params => jsonb_build_object('by', p_by));
        RETURN 'failed';
    WHEN 'resend' THEN
        PERFORM fairpost.log_attempt(email, 'in_doubt', p_detail, t);
        IF email.campaign_id IS NOT NULL AND EXISTS (SELECT FROM fairpost.campaigns c WHERE c.id = email.campaign_id AND c.state = 'cancelled') THEN
            PERFORM fairpost.finish(p_id, 'cancelled', 'email.campaign_cancelled', t);   -- otherwise the e-mail would wait forever
            RETURN 'cancelled';
        END IF;
        -- keeps account, epoch and begun_at, so that late proof from the worker that started the send still prevents a second one
        UPDATE fairpost.queue q SET state = 'waiting', waiting = true, due_at = coalesce(p_due_at, t), claimed_at = NULL,
            attempts_max = greatest(q.attempts_max, q.attempts + 1) WHERE q.id = p_id;
        PERFORM fairpost.note(ARRAY[p_id], 1);
        PERFORM fairpost.tell_of_email(email, 'email.delivery_delayed', 'email.outcome_unknown', '{}', t);
        RETURN 'waiting';
    ELSE
        RAISE EXCEPTION 'resolve: the decision must be sent, failed or resend, got %', p_decision USING ERRCODE = 'FP001';
    END CASE;
END $$;
