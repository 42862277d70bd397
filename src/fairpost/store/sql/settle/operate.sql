-- Actions that people take on individual e-mails.

-- Cancels an e-mail before its sending starts, with a note from the caller. Returns the resulting state, which is `cancelled` or the state that
-- prevented the cancellation. Runs in the caller's transaction and locks only the e-mail itself.
CREATE OR REPLACE FUNCTION fairpost.cancel(p_id bigint, p_reason text DEFAULT NULL, p_now timestamptz DEFAULT NULL) RETURNS fairpost.email_state
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    PERFORM fairpost.require_own_email(p_id);
    RETURN fairpost.cancel_email(p_id, 'email.cancelled', jsonb_strip_nulls(jsonb_build_object('note', left(p_reason, 2000))), p_now);
END $$;

-- Does the same with one of Fairpost's own reasons, which is a code with parameters. Callers have checked who owns the e-mail.
CREATE OR REPLACE FUNCTION fairpost.cancel_email(p_id bigint, p_reason text, p_params jsonb, p_now timestamptz) RETURNS fairpost.email_state
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    email fairpost.queue;
BEGIN
    SELECT * INTO email FROM fairpost.queue q WHERE q.id = p_id;   -- e-mails being sent are not locked
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
    PERFORM fairpost.finish(p_id, 'cancelled', p_reason, coalesce(p_now, clock_timestamp()), p_params => fairpost.shortened(p_params));
    RETURN 'cancelled';
END $$;

-- Puts a failed or bounced e-mail back into the queue, for at least one more attempt. With `p_also_unbegun`, does the same for an e-mail that was
-- cancelled or suppressed before its sending started. Returns the new state.
DROP FUNCTION IF EXISTS fairpost.retry(bigint, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.retry(p_id bigint, p_now timestamptz DEFAULT NULL, p_also_unbegun boolean DEFAULT false) RETURNS fairpost.email_state
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    email fairpost.emails;
BEGIN
    PERFORM fairpost.require_own_email(p_id);
    DELETE FROM fairpost.emails e WHERE e.id = p_id
    AND (e.state IN ('failed', 'bounced') OR p_also_unbegun AND e.state IN ('cancelled', 'suppressed') AND e.attempts = 0)
    AND (e.campaign_id IS NULL OR NOT fairpost.is_stopped(e.prospect_id, e.campaign_id) AND EXISTS (   -- otherwise the e-mail would wait forever
        SELECT FROM fairpost.campaigns c WHERE c.id = e.campaign_id AND c.state <> 'cancelled'
        AND EXISTS (SELECT FROM fairpost.prospects p WHERE p.id = e.prospect_id)
        AND (left(e.route, 1) <> '@' OR EXISTS (SELECT FROM fairpost.accounts a WHERE e.route = '@' || a.name))))
    RETURNING * INTO email;
    IF NOT FOUND THEN
        RETURN coalesce((SELECT q.state FROM fairpost.queue q WHERE q.id = p_id), (SELECT e.state FROM fairpost.emails e WHERE e.id = p_id));
    END IF;
    PERFORM fairpost.requeue(email, t);
    INSERT INTO fairpost.events (at, kind, workspace, subject) VALUES (t, 'retried', email.workspace, 'email ' || p_id);
    RETURN 'waiting';
END $$;

-- Moves an e-mail from history back to the queue. A follow-up waits until the previous step has been sent and the delay has passed, and uses the same
-- account. If the previous step is no longer in history, the follow-up does not wait. E-mails that were cancelled only because this e-mail was not
-- sent will wait for this e-mail again.
CREATE OR REPLACE FUNCTION fairpost.requeue(email fairpost.emails, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    before record;
    revived fairpost.campaigns;
    due timestamptz := p_now;
    on_route text := email.route;
    is_paused boolean := false;
BEGIN
    IF email.campaign_id IS NOT NULL THEN
        PERFORM FROM fairpost.campaigns c WHERE c.id = email.campaign_id FOR NO KEY UPDATE;   -- so that it is not completed in the meantime
        is_paused := coalesce((SELECT p.is_paused FROM fairpost.prospects p WHERE p.id = email.prospect_id) AND fairpost.is_still_paused(email.prospect_id), false);
        IF email.follows IS NOT NULL THEN
            PERFORM FROM fairpost.queue q WHERE q.id = email.follows FOR UPDATE;   -- by now, any settlement in progress has ended
            SELECT e.finished_at, '@' || a.name AS route INTO before FROM fairpost.emails e LEFT JOIN fairpost.accounts a ON a.id = e.account_id
            WHERE e.id = email.follows AND e.state = 'sent';
            due := CASE WHEN FOUND THEN greatest(p_now, before.finished_at + make_interval(secs => (
                SELECT s.delay_s FROM fairpost.campaign_steps s WHERE s.campaign_id = email.campaign_id AND s.step = email.step)))
                WHEN fairpost.is_email_of(email.follows::text, email.workspace) THEN 'infinity' ELSE p_now END;
            on_route := coalesce(before.route, email.route);
        END IF;
    END IF;
    INSERT INTO fairpost.queue (id, flow, due_at, parked_due, attempts, attempts_max, account_id, expires_at, created_at, content_id, class, on_doubt, route, workspace,
        domain, user_name, stream, sender, recipients, addresses, fields, idempotency_key, last_error, follows, campaign_id, prospect_id, step)
    VALUES (email.id, fairpost.flow_of(on_route, email.class, email.workspace, email.domain, email.user_name, email.stream),
        CASE WHEN is_paused THEN 'infinity' ELSE due END, CASE WHEN is_paused THEN nullif(due, 'infinity') END,
        email.attempts, CASE WHEN email.attempts = 0 THEN email.attempts_max ELSE greatest(email.attempts_max, email.attempts + 1) END, email.account_id,
        email.expires_at, email.created_at, email.content_id, email.class, email.on_doubt, on_route, email.workspace, email.domain, email.user_name, email.stream, email.sender,
        email.recipients, email.addresses, email.fields, email.idempotency_key, fairpost.in_one(email.reason, email.reason_params), email.follows, email.campaign_id, email.prospect_id, email.step);
    PERFORM fairpost.note(ARRAY[email.id], 1);
    INSERT INTO fairpost.outbox (at, kind, workspace, email_id, account_id, campaign_id) VALUES (p_now, 'email.queued', email.workspace, email.id, email.account_id, email.campaign_id);
    DELETE FROM fairpost.returned r WHERE r.email_id = email.id AND r.effect IN ('bounced', 'unconfirmed', 'full', 'undelivered', 'delayed', 'delivered');   -- what returned mail said about the previous attempts
    IF email.campaign_id IS NOT NULL THEN
        UPDATE fairpost.campaigns c SET state = 'running', reason = NULL, reason_params = NULL, finished_at = NULL WHERE c.id = email.campaign_id AND c.state = 'completed' RETURNING * INTO revived;
        IF FOUND THEN
            PERFORM fairpost.tell_of_campaign(revived, p_now);
        END IF;
        PERFORM fairpost.revive_followers(email.id, p_now);
    END IF;
END $$;

-- Fails a claimed e-mail that can never be sent, without an attempt and without charging the account. Returns false if the lease no longer holds the
-- e-mail.
DROP FUNCTION IF EXISTS fairpost.fail_claimed(bigint, bigint, bigint, text, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.fail_claimed(p_account bigint, p_epoch bigint, p_id bigint, p_reason text, p_params jsonb, p_now timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM FROM fairpost.leases l WHERE l.account_id = p_account AND l.epoch = p_epoch ORDER BY l.step DESC LIMIT 1 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM FROM fairpost.queue q WHERE q.id = p_id AND q.account_id = p_account AND q.epoch = p_epoch AND q.state = 'claimed' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM fairpost.finish(p_id, 'failed', p_reason, coalesce(p_now, clock_timestamp()), p_params => fairpost.shortened(p_params));
    RETURN true;
END $$;
