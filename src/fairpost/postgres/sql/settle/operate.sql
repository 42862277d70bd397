-- What people do to single e-mails.

-- Takes an e-mail out before it is begun. Returns the state it is in afterwards: cancelled, or what kept it from being so.
-- Works in the caller's transaction and holds nothing but the e-mail itself.
CREATE OR REPLACE FUNCTION fairpost.cancel(p_id bigint, p_reason text DEFAULT 'cancelled', p_now timestamptz DEFAULT NULL) RETURNS fairpost.email_state
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    email fairpost.queue;
BEGIN
    SELECT * INTO email FROM fairpost.queue q WHERE q.id = p_id;   -- what is being sent is not even locked
    IF FOUND AND email.state IN ('waiting', 'claimed') THEN
        SELECT * INTO email FROM fairpost.queue q WHERE q.id = p_id FOR UPDATE;
    END IF;
    IF NOT FOUND THEN
        RETURN (SELECT e.state FROM fairpost.emails e WHERE e.id = p_id);
    ELSIF email.state IN ('sending', 'in_doubt') THEN
        RETURN email.state;
    END IF;
    IF email.waiting THEN
        PERFORM fairpost.note(ARRAY[p_id], -1);
    END IF;
    PERFORM fairpost.finish(p_id, 'cancelled', p_reason, coalesce(p_now, clock_timestamp()));
    RETURN 'cancelled';
END $$;

-- Puts an e-mail that was given up (failed or bounced) back into the queue, for at least one attempt more; and one that was cancelled or suppressed
-- before it ever began, if `p_also_unbegun`. Returns its state now.
DROP FUNCTION IF EXISTS fairpost.retry(bigint, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.retry(p_id bigint, p_now timestamptz DEFAULT NULL, p_also_unbegun boolean DEFAULT false) RETURNS fairpost.email_state
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    email fairpost.emails;
BEGIN
    DELETE FROM fairpost.emails e WHERE e.id = p_id
    AND (e.state IN ('failed', 'bounced') OR p_also_unbegun AND e.state IN ('cancelled', 'suppressed') AND e.attempts = 0) RETURNING * INTO email;
    IF NOT FOUND THEN
        RETURN coalesce((SELECT q.state FROM fairpost.queue q WHERE q.id = p_id), (SELECT e.state FROM fairpost.emails e WHERE e.id = p_id));
    END IF;
    PERFORM fairpost.requeue(email, t);
    INSERT INTO fairpost.events (at, kind, workspace, subject) VALUES (t, 'retried', email.workspace, 'email ' || p_id);
    RETURN 'waiting';
END $$;

-- Out of history, back into the queue. A step that follows another one waits for it, unless that was sent; what was cancelled only because this
-- one was not sent waits for it again.
CREATE OR REPLACE FUNCTION fairpost.requeue(email fairpost.emails, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    waits_for CONSTANT bigint := (SELECT email.follows WHERE email.campaign_id IS NOT NULL
        AND NOT EXISTS (SELECT FROM fairpost.emails e WHERE e.id = email.follows AND e.state = 'sent'));
    is_paused CONSTANT boolean := coalesce((SELECT p.is_paused FROM fairpost.prospects p WHERE p.id = email.prospect_id), false);
BEGIN
    INSERT INTO fairpost.queue (id, flow, due_at, parked_due, attempts, attempts_max, account_id, expires_at, created_at, content_id, class, on_doubt, route, workspace,
        domain, user_name, stream, sender, recipients, addresses, fields, idempotency_key, last_error, follows, campaign_id, prospect_id, step)
    VALUES (email.id, email.flow, CASE WHEN waits_for IS NULL AND NOT is_paused THEN p_now ELSE 'infinity' END, CASE WHEN waits_for IS NULL AND is_paused THEN p_now END,
        email.attempts, CASE WHEN email.attempts = 0 THEN email.attempts_max ELSE greatest(email.attempts_max, email.attempts + 1) END, email.account_id,
        email.expires_at, email.created_at, email.content_id, email.class, email.on_doubt, email.route, email.workspace, email.domain, email.user_name, email.stream, email.sender,
        email.recipients, email.addresses, email.fields, email.idempotency_key, email.reason, email.follows, email.campaign_id, email.prospect_id, email.step);
    PERFORM fairpost.note(ARRAY[email.id], 1);
    IF email.campaign_id IS NOT NULL THEN
        UPDATE fairpost.campaigns c SET state = 'running', reason = NULL, finished_at = NULL WHERE c.id = email.campaign_id AND c.state = 'completed';
        PERFORM fairpost.revive_followers(email.id, p_now);
    END IF;
END $$;
