-- Moves e-mails from the queue to history, with their event and the code and parameters of the reason. Only this function lists the columns of
-- history. `p_sent` are the e-mails that were sent, each with its Message-ID and thread, if any.
DROP FUNCTION IF EXISTS fairpost.archive(bigint[], fairpost.email_state, text, timestamptz);
DROP FUNCTION IF EXISTS fairpost.archive(bigint[], fairpost.email_state, text, timestamptz, text, text);
DROP FUNCTION IF EXISTS fairpost.move_to_history(bigint[], fairpost.email_state, text, jsonb, timestamptz, text, text);
CREATE OR REPLACE FUNCTION fairpost.move_to_history(
    p_ids bigint[], p_state fairpost.email_state, p_reason text, p_params jsonb, p_now timestamptz,
    p_sent bigint[] DEFAULT NULL, p_message_ids text[] DEFAULT NULL, p_thread_ids text[] DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH gone AS (DELETE FROM fairpost.queue q WHERE q.id = ANY (p_ids) RETURNING q.*), told AS (
        INSERT INTO fairpost.outbox (at, kind, workspace, email_id, account_id, campaign_id, reason, params)
        SELECT p_now, 'email.' || p_state, g.workspace, g.id, g.account_id, g.campaign_id, p_reason, CASE WHEN p_reason IS NOT NULL THEN p_params END FROM gone g
    )
    INSERT INTO fairpost.emails AS e (id, state, reason, reason_params, finished_at, created_at, due_at, expires_at, attempts, attempts_max, account_id, content_id,
        class, on_doubt, flow, route, workspace, domain, user_name, stream, sender, recipients, addresses, fields, idempotency_key, message_id, thread_id, follows,
        campaign_id, prospect_id, step)
    SELECT g.id, p_state, p_reason, CASE WHEN p_reason IS NOT NULL THEN p_params END, p_now, g.created_at, g.due_at, g.expires_at, g.attempts, g.attempts_max, g.account_id, g.content_id,
        g.class, g.on_doubt, g.flow, g.route, g.workspace, g.domain, g.user_name, g.stream, g.sender, g.recipients, g.addresses, g.fields,
        g.idempotency_key, p_message_ids[array_position(p_sent, g.id)], p_thread_ids[array_position(p_sent, g.id)], g.follows, g.campaign_id, g.prospect_id, g.step
    FROM gone g;
END $$;

-- Finishes one e-mail. Its follow-up in a campaign is updated in the same commit.
DROP FUNCTION IF EXISTS fairpost.finish(bigint, fairpost.email_state, text, timestamptz, text, text);
CREATE OR REPLACE FUNCTION fairpost.finish_email(
    email fairpost.queue, p_state fairpost.email_state, p_reason text, p_now timestamptz, p_message_id text DEFAULT NULL, p_thread_id text DEFAULT NULL, p_params jsonb DEFAULT '{}'
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    moved text;   -- an assignment, because PERFORM would run a whole query
BEGIN
    moved := fairpost.move_to_history(ARRAY[email.id], p_state, p_reason, p_params, p_now, ARRAY[email.id], ARRAY[p_message_id], ARRAY[p_thread_id]);
    IF email.campaign_id IS NOT NULL THEN
        moved := fairpost.schedule_next_step(email.id, p_state, email.account_id, p_now);
    END IF;
END $$;

-- Does the same for an e-mail given by its id.
CREATE OR REPLACE FUNCTION fairpost.finish(
    p_id bigint, p_state fairpost.email_state, p_reason text, p_now timestamptz, p_message_id text DEFAULT NULL, p_thread_id text DEFAULT NULL, p_params jsonb DEFAULT '{}'
) RETURNS void
LANGUAGE sql AS $$
    SELECT fairpost.finish_email(q, p_state, p_reason, p_now, p_message_id, p_thread_id, p_params) FROM fairpost.queue q WHERE q.id = p_id
$$;

-- Finishes e-mails that must not be sent, because they have expired or all their recipients are on the suppression list.
CREATE OR REPLACE FUNCTION fairpost.finish_unsendable(p_id bigint, p_now timestamptz) RETURNS void
LANGUAGE sql AS $$
    SELECT CASE WHEN q.expires_at <= p_now
        THEN fairpost.finish(q.id, 'cancelled', 'email.expired', p_now, p_params => jsonb_build_object('expired_at', q.expires_at))
        ELSE fairpost.finish(q.id, 'suppressed', 'email.suppressed', p_now) END
    FROM fairpost.queue q WHERE q.id = p_id
$$;

-- Adds arrivals for e-mails that go back to the queue (n = 1) or are no longer waiting (n = -1, never due), so that the tree is updated. Changes no row that
-- others use. `p_unserved` means that they were claimed but their sending never started, so their sender is refunded. If they were claimed in order
-- of arrival, nothing was charged.
DROP FUNCTION IF EXISTS fairpost.note(bigint[], integer);
CREATE OR REPLACE FUNCTION fairpost.note(p_ids bigint[], p_n integer, p_unserved boolean DEFAULT false) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO fairpost.arrivals (route, class, workspace, domain, user_name, stream, flow, n, due_at, id, fresh)
    SELECT q.route, q.class, q.workspace, q.domain, q.user_name, q.stream, q.flow, p_n * count(*), CASE WHEN p_n > 0 THEN min(q.due_at) ELSE 'infinity' END, min(q.id),
           CASE WHEN p_unserved THEN -count(*) FILTER (WHERE fairpost.is_fair(q.workspace, f.share)) ELSE 0 END
    FROM fairpost.queue q, fairpost.fairness f WHERE f.single AND q.id = ANY (p_ids) GROUP BY 1, 2, 3, 4, 5, 6, 7
$$;
