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

-- Puts an e-mail that was given up (failed or bounced) back into the queue, for at least one attempt more. Returns its state now.
CREATE OR REPLACE FUNCTION fairpost.retry(p_id bigint, p_now timestamptz DEFAULT NULL) RETURNS fairpost.email_state
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    email fairpost.emails;
BEGIN
    DELETE FROM fairpost.emails e WHERE e.id = p_id AND e.state IN ('failed', 'bounced') RETURNING * INTO email;
    IF NOT FOUND THEN
        RETURN coalesce((SELECT q.state FROM fairpost.queue q WHERE q.id = p_id), (SELECT e.state FROM fairpost.emails e WHERE e.id = p_id));
    END IF;
    INSERT INTO fairpost.queue (id, flow, due_at, attempts, attempts_max, account_id, expires_at, created_at, content_id, class, on_doubt, route, workspace,
        domain, user_name, stream, sender, recipients, addresses, fields, idempotency_key, last_error, follows)
    VALUES (email.id, email.flow, t, email.attempts, greatest(email.attempts_max, email.attempts + 1), email.account_id, email.expires_at, email.created_at,
        email.content_id, email.class, email.on_doubt, email.route, email.workspace, email.domain, email.user_name, email.stream, email.sender,
        email.recipients, email.addresses, email.fields, email.idempotency_key, email.reason, email.follows);
    PERFORM fairpost.note(ARRAY[p_id], 1);
    INSERT INTO fairpost.events (at, kind, workspace, subject) VALUES (t, 'retried', email.workspace, 'email ' || p_id);
    RETURN 'waiting';
END $$;
