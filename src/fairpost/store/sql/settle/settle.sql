-- Records the outcome of a send, its log entry, the counters and the follow-up in one commit. `p_step` is the number of this step, one more than the
-- last acknowledged step. A repeated or late step changes nothing.
--
-- `p_outcome` is `sent`, `retry` (at `due_at`), `failed`, `bounced`, `in_doubt`, or one of these two:
--   untouched      the transport never received the e-mail; it goes back to the queue, and the charge is refunded
--   deferred       the server asked the account to wait; the e-mail goes back to the queue (until `due_at` if given), and no attempt is used up
--
-- `p_detail` can contain code, reply, response_ms, message_id, thread_id, params, and:
--   recipients     the reply for each recipient
--   reason         a code for why the e-mail was not sent
--   bounced        addresses that no longer exist, which are suppressed from now on
--   soft_bounced   recipients that are not tried again because their mailbox did not accept the e-mail; suppressed after several soft bounces
--   remaining      on `retry`, the recipients that have not received the e-mail yet
--
-- Returns one of these results:
--   settled        the outcome was recorded
--   stale          another worker holds the account now, so nothing changed
--   late           this step or a later one was already taken
--   evidence       this is late proof that an e-mail in doubt was sent
--   gone           the e-mail no longer exists
DROP FUNCTION IF EXISTS fairpost.settle(bigint, bigint, bigint, text, jsonb, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.settle(
    p_account bigint, p_epoch bigint, p_id bigint, p_outcome text, p_detail jsonb DEFAULT '{}', p_now timestamptz DEFAULT NULL, p_step bigint DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    lease_epoch bigint;
    lease_step bigint;
    settled text;
    counted text;
BEGIN
    SELECT l.epoch, l.step INTO lease_epoch, lease_step FROM fairpost.leases l WHERE l.account_id = p_account ORDER BY l.step DESC LIMIT 1 FOR NO KEY UPDATE;
    IF lease_epoch = p_epoch AND lease_step <> p_step - 1 THEN
        RETURN 'late';
    END IF;
    settled := fairpost.settle_email(p_account, p_epoch, lease_epoch, p_id, p_outcome, p_detail, p_now);
    IF settled IN ('settled', 'evidence') THEN
        counted := fairpost.count_step(p_account, lease_step, settled, p_outcome, p_detail, NULL, NULL, NULL);
    END IF;
    RETURN settled;
END $$;

-- The part of `settle` that concerns the e-mail. The lease row is locked and has the epoch `lease_epoch`. `p_next` is the e-mail that the same
-- transaction will begin, if any.
DROP FUNCTION IF EXISTS fairpost.settle_email(bigint, bigint, bigint, bigint, text, jsonb, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.settle_email(
    p_account bigint, p_epoch bigint, lease_epoch bigint, p_id bigint, p_outcome text, p_detail jsonb, p_now timestamptz, p_next bigint DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    email fairpost.queue;
    t timestamptz;
    why text;
    params jsonb;
    said text;   -- both in one
    done text;   -- receives the results of calls, because an assignment is cheaper than PERFORM, which runs a whole query
BEGIN
    IF p_outcome <> 'sent' THEN
        why := coalesce(p_detail ->> 'reason', CASE p_outcome WHEN 'in_doubt' THEN 'email.outcome_unknown' ELSE 'email.refused' END);
        params := fairpost.shortened(coalesce(p_detail -> 'params', jsonb_strip_nulls(jsonb_build_object('code', p_detail -> 'code', 'reply', p_detail -> 'reply'))));
        said := CASE WHEN p_outcome <> 'untouched' OR p_detail ? 'reason' THEN fairpost.in_one(why, params) END;   -- null for an e-mail that was never handed over
    END IF;
    SELECT * INTO email FROM fairpost.queue q WHERE q.id = p_id FOR UPDATE;
    t := coalesce(p_now, clock_timestamp());
    IF NOT FOUND THEN
        RETURN 'gone';
    ELSIF email.account_id IS DISTINCT FROM p_account OR email.epoch IS DISTINCT FROM p_epoch THEN
        RETURN 'stale';
    ELSIF lease_epoch IS DISTINCT FROM p_epoch OR email.state <> 'sending' THEN
        IF p_outcome = 'sent' AND (email.state = 'in_doubt' OR email.state = 'waiting' AND email.begun_at IS NOT NULL) THEN
            done := fairpost.log_attempt(email, 'sent', p_detail, t);
            IF email.state = 'waiting' THEN
                PERFORM fairpost.note(ARRAY[p_id], -1);
            END IF;
            done := fairpost.finish_email(email, 'sent', NULL, t, p_detail ->> 'message_id', p_detail ->> 'thread_id');
            RETURN 'evidence';
        END IF;
        RETURN 'stale';
    END IF;

    CASE p_outcome
    WHEN 'sent' THEN
        done := fairpost.log_attempt(email, p_outcome, p_detail, t);
        done := fairpost.finish_email(email, 'sent', NULL, t, p_detail ->> 'message_id', p_detail ->> 'thread_id');
    WHEN 'failed', 'bounced' THEN
        done := fairpost.log_attempt(email, p_outcome, p_detail, t);
        done := fairpost.finish_email(email, p_outcome::fairpost.email_state, why, t, p_params => params);
    WHEN 'retry' THEN
        PERFORM fairpost.log_attempt(email, p_outcome, p_detail, t);
        UPDATE fairpost.queue q SET state = 'waiting', waiting = true, due_at = (p_detail ->> 'due_at')::timestamptz, begun_at = NULL, claimed_at = NULL, last_error = said,
            addresses = coalesce((SELECT array_agg(a) FROM jsonb_array_elements_text(p_detail -> 'remaining') a), q.addresses)
        WHERE q.id = p_id;
        PERFORM fairpost.note(ARRAY[p_id], 1);
        PERFORM fairpost.tell_of_email(email, 'email.delivery_delayed', why, params, t);
    WHEN 'in_doubt' THEN
        UPDATE fairpost.queue q SET state = 'in_doubt', last_error = said WHERE q.id = p_id;
        INSERT INTO fairpost.doubtful (account_id, email_id) VALUES (p_account, p_id);
        PERFORM fairpost.tell_of_email(email, 'email.in_doubt', why, params, t);
    WHEN 'untouched' THEN
        DELETE FROM fairpost.charges c WHERE c.account_id = p_account AND c.at = email.begun_at AND c.email_id = p_id;
        UPDATE fairpost.queue q SET state = 'waiting', waiting = true, attempts = q.attempts - 1, begun_at = NULL, claimed_at = NULL,
            last_error = said, due_at = coalesce((p_detail ->> 'due_at')::timestamptz, q.due_at)
        WHERE q.id = p_id;
        PERFORM fairpost.note(ARRAY[p_id], 1, true);
    WHEN 'deferred' THEN
        PERFORM fairpost.log_attempt(email, p_outcome, p_detail, t);
        UPDATE fairpost.queue q SET state = 'waiting', waiting = true, attempts = q.attempts - 1, begun_at = NULL, claimed_at = NULL,
            last_error = said, due_at = coalesce((p_detail ->> 'due_at')::timestamptz, q.due_at)
        WHERE q.id = p_id;
        PERFORM fairpost.note(ARRAY[p_id], 1);
        PERFORM fairpost.tell_of_email(email, 'email.delivery_delayed', why, params, t);
    ELSE
        RAISE EXCEPTION 'settle: unknown outcome %', p_outcome USING ERRCODE = 'FP002';
    END CASE;

    IF email.campaign_id IS NOT NULL AND p_outcome NOT IN ('sent', 'in_doubt') THEN
        IF p_next IS NOT NULL THEN   -- in the same order as in a group: first the pause, then the quotas by workspace
            done := pg_advisory_xact_lock_shared(fairpost.pause_lock());
            done := fairpost.lock_quotas(ARRAY(SELECT q.id FROM fairpost.queue q WHERE q.id = p_next AND q.workspace < email.workspace), p_now);
        END IF;
        PERFORM fairpost.refund_quota(email);
    END IF;
    IF jsonb_array_length(p_detail -> 'bounced') > 0 OR jsonb_array_length(p_detail -> 'soft_bounced') > 0 THEN
        PERFORM fairpost.apply_bounces(email, p_outcome, p_detail, t);
    ELSIF p_outcome IN ('sent', 'retry') THEN   -- separate, so that its query runs only here; this is usually a lookup that finds nothing
        IF EXISTS (SELECT FROM fairpost.soft_bounces b WHERE b.workspace = email.workspace) THEN
            PERFORM fairpost.apply_bounces(email, p_outcome, p_detail, t);
        END IF;
    END IF;
    RETURN 'settled';
END $$;

-- Returns how many of an e-mail's attempts were deferred because of the account. These attempts are logged but do not count.
CREATE OR REPLACE FUNCTION fairpost.deferrals(email fairpost.queue) RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT count(*)::integer FROM fairpost.attempts a WHERE a.email_id = email.id AND a.outcome = 'deferred'
$$;

-- Writes one permanent log entry, numbered by the e-mail's attempts. Because every send calls this function, deferrals are looked up in the log only
-- after an earlier error. A second entry for the same attempt (late proof) replaces the entry about the doubt.
CREATE OR REPLACE FUNCTION fairpost.log_attempt(email fairpost.queue, p_outcome text, p_detail jsonb, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO fairpost.attempts (email_id, n, account_id, epoch, begun_at, ended_at, outcome, code, reply, response_ms, recipients)
    VALUES (email.id, email.attempts + CASE WHEN email.last_error IS NULL THEN 0 ELSE fairpost.deferrals(email) END, email.account_id, email.epoch, coalesce(email.begun_at, p_now), p_now, p_outcome, (p_detail ->> 'code')::smallint,
            left(p_detail ->> 'reply', 2000), (p_detail ->> 'response_ms')::integer, p_detail -> 'recipients')
    ON CONFLICT (email_id, n) DO UPDATE SET
        ended_at = excluded.ended_at, outcome = excluded.outcome, code = excluded.code, reply = excluded.reply,
        response_ms = excluded.response_ms, recipients = excluded.recipients;
END $$;

-- Puts claimed e-mails that will not be sent now back into the queue. Skips e-mails held by other leases, and also e-mails that are being cancelled,
-- because waiting for a cancellation could deadlock. Returns the e-mails that were put back.
DROP FUNCTION IF EXISTS fairpost.give_back(bigint, bigint, bigint[]);
CREATE OR REPLACE FUNCTION fairpost.give_back(p_account bigint, p_epoch bigint, p_ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    back bigint[];
BEGIN
    PERFORM FROM fairpost.leases l WHERE l.account_id = p_account AND l.epoch = p_epoch ORDER BY l.step DESC LIMIT 1 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN '{}';
    END IF;
    back := ARRAY(SELECT q.id FROM fairpost.queue q
                  WHERE q.id = ANY (p_ids) AND q.account_id = p_account AND q.epoch = p_epoch AND q.state = 'claimed' ORDER BY q.id FOR UPDATE SKIP LOCKED);
    UPDATE fairpost.queue q SET state = 'waiting', waiting = true, claimed_at = NULL WHERE q.id = ANY (back);
    PERFORM fairpost.note(back, 1, true);
    RETURN back;
END $$;
