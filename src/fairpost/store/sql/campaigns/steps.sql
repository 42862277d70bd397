-- The transition from one step to the next. Determines when the follow-up to an e-mail is due, or cancels the follow-up.

DROP FUNCTION IF EXISTS fairpost.not_led();

-- Called when a campaign e-mail is finished. If it was sent, the next step becomes due after its delay and will be sent through the same account.
-- Otherwise the next step is cancelled.
CREATE OR REPLACE FUNCTION fairpost.schedule_next_step(p_id bigint, p_state fairpost.email_state, p_account bigint, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    next fairpost.queue;
    pinned text;
    due timestamptz;
    is_paused boolean;
BEGIN
    SELECT * INTO next FROM fairpost.queue q WHERE q.follows = p_id AND q.campaign_id IS NOT NULL AND q.state = 'waiting' AND q.due_at = 'infinity' FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    pinned := '@' || (SELECT a.name FROM fairpost.accounts a WHERE a.id = p_account);
    IF p_state <> 'sent' OR pinned IS NULL THEN
        PERFORM fairpost.note(ARRAY[next.id], -1);
        PERFORM fairpost.finish(next.id, 'cancelled', CASE WHEN p_state <> 'sent' THEN 'email.step_not_reached' ELSE 'email.step_lost_account' END, p_now);
        RETURN;
    END IF;
    due := p_now + make_interval(secs => (SELECT s.delay_s FROM fairpost.campaign_steps s WHERE s.campaign_id = next.campaign_id AND s.step = next.step));
    is_paused := (SELECT p.is_paused FROM fairpost.prospects p WHERE p.id = next.prospect_id) AND fairpost.is_still_paused(next.prospect_id);
    PERFORM fairpost.note(ARRAY[next.id], -1);
    UPDATE fairpost.queue q SET
        route = pinned, flow = fairpost.flow_of(pinned, q.class, q.workspace, q.domain, q.user_name, q.stream),
        due_at = CASE WHEN is_paused THEN q.due_at ELSE due END, parked_due = CASE WHEN is_paused THEN due END
    WHERE q.id = next.id;
    INSERT INTO fairpost.arrivals (route, class, workspace, domain, user_name, stream, flow, n, fresh, due_at, id)
    SELECT q.route, q.class, q.workspace, q.domain, q.user_name, q.stream, q.flow, 1, (q.due_at < 'infinity')::integer, q.due_at, q.id
    FROM fairpost.queue q WHERE q.id = next.id;
END $$;

-- Does the same as `schedule_next_step`, but for many sent e-mails at once. The caller has locked their follow-ups and checked that their prospects
-- are not paused.
CREATE OR REPLACE FUNCTION fairpost.schedule_followers(p_ids bigint[], p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    next_ids CONSTANT bigint[] := ARRAY(
        SELECT q.id FROM unnest(p_ids) i(id)
        CROSS JOIN LATERAL (SELECT q.id FROM fairpost.queue q WHERE q.follows = i.id AND q.campaign_id IS NOT NULL AND q.state = 'waiting' AND q.due_at = 'infinity' LIMIT 1) q);
BEGIN
    WITH next AS MATERIALIZED (
        SELECT q.id, q.route, q.class, q.workspace, q.domain, q.user_name, q.stream, q.flow, '@' || a.name AS pinned, p_now + make_interval(secs => s.delay_s) AS due
        FROM unnest(next_ids) i(id)
        CROSS JOIN LATERAL (SELECT * FROM fairpost.queue q WHERE q.id = i.id OFFSET 0) q
        CROSS JOIN LATERAL (SELECT e.account_id FROM fairpost.emails e WHERE e.id = q.follows OFFSET 0) e
        CROSS JOIN LATERAL (SELECT a.name FROM fairpost.accounts a WHERE a.id = e.account_id OFFSET 0) a
        CROSS JOIN LATERAL (SELECT s.delay_s FROM fairpost.campaign_steps s WHERE s.campaign_id = q.campaign_id AND s.step = q.step OFFSET 0) s
    ), left_out AS (
        INSERT INTO fairpost.arrivals (route, class, workspace, domain, user_name, stream, flow, n, fresh, due_at, id)
        SELECT n.route, n.class, n.workspace, n.domain, n.user_name, n.stream, n.flow, -count(*), 0, 'infinity', min(n.id) FROM next n GROUP BY 1, 2, 3, 4, 5, 6, 7
    ), moved AS (
        UPDATE fairpost.queue q SET
            route = n.pinned, flow = fairpost.flow_of(n.pinned, n.class, n.workspace, n.domain, n.user_name, n.stream), due_at = n.due, parked_due = NULL
        FROM next n WHERE q.id = n.id AND q.id = ANY (next_ids) RETURNING q.*
    )
    INSERT INTO fairpost.arrivals (route, class, workspace, domain, user_name, stream, flow, n, fresh, due_at, id)
    SELECT m.route, m.class, m.workspace, m.domain, m.user_name, m.stream, m.flow, 1, 1, m.due_at, m.id FROM moved m;
END $$;

-- Follow-ups that were cancelled only because this e-mail was not sent will wait for this e-mail again.
CREATE OR REPLACE FUNCTION fairpost.revive_followers(p_id bigint, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    follower fairpost.emails;
BEGIN
    FOR follower IN DELETE FROM fairpost.emails e WHERE e.follows = p_id AND e.state = 'cancelled' AND e.campaign_id IS NOT NULL AND e.reason IN ('email.step_not_reached', 'the e-mail before it was not sent') RETURNING e.* LOOP
        PERFORM fairpost.requeue(follower, p_now);
    END LOOP;
END $$;

-- Returns whether this campaign's e-mails to this prospect were stopped.
CREATE OR REPLACE FUNCTION fairpost.is_stopped(p_prospect bigint, p_campaign bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM fairpost.opt_outs s WHERE s.prospect_id = p_prospect AND s.campaign_id IN (p_campaign, 0))
$$;

-- Stops sending to a prospect permanently, for one campaign or (null) for all campaigns. `p_reason` is the caller's text. A send in progress is not
-- interrupted, but the e-mail will not be retried. Returns the number of e-mails cancelled immediately.
CREATE OR REPLACE FUNCTION fairpost.stop_prospect(p_prospect bigint, p_campaign bigint, p_reason text, p_now timestamptz DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    params CONSTANT jsonb := jsonb_build_object('note', left(p_reason, 500));
    n integer;
BEGIN
    PERFORM fairpost.require_own_prospects(ARRAY[p_prospect]);
    IF p_campaign IS NOT NULL THEN
        PERFORM fairpost.require_own_campaign(p_campaign);
    END IF;
    INSERT INTO fairpost.opt_outs (prospect_id, campaign_id, reason, params, at) VALUES (p_prospect, coalesce(p_campaign, 0), 'prospect.stopped_by_hand', params, t) ON CONFLICT DO NOTHING;
    n := fairpost.cancel_prospect(p_prospect, p_campaign, 'email.prospect_stopped', params, p_now);
    INSERT INTO fairpost.events (at, kind, workspace, subject, detail)
    SELECT t, 'stopped', p.workspace, 'prospect ' || p.id, jsonb_build_object('campaign', p_campaign, 'reason', 'prospect.stopped_by_hand', 'params', params, 'emails', n)
    FROM fairpost.prospects p WHERE p.id = p_prospect;
    RETURN n;
END $$;

-- Cancels the waiting e-mails to a prospect, for one campaign or (null) for all campaigns. Returns the number of e-mails cancelled.
DROP FUNCTION IF EXISTS fairpost.cancel_prospect(bigint, bigint, text, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.cancel_prospect(p_prospect bigint, p_campaign bigint, p_reason text, p_params jsonb, p_now timestamptz) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    email bigint;
    n integer := 0;
BEGIN
    -- Locked in step order, because a transaction that finishes an e-mail locks the next step. Then the last step is cancelled first, because
    -- cancelling an earlier step would cancel the later ones for a different reason.
    PERFORM FROM fairpost.queue q WHERE q.prospect_id = p_prospect AND (p_campaign IS NULL OR q.campaign_id = p_campaign) AND q.state IN ('waiting', 'claimed')
    ORDER BY q.step, q.id FOR UPDATE;
    FOR email IN SELECT q.id FROM fairpost.queue q WHERE q.prospect_id = p_prospect AND (p_campaign IS NULL OR q.campaign_id = p_campaign)
                 ORDER BY q.step DESC, q.id DESC LOOP
        n := n + (fairpost.cancel_email(email, p_reason, p_params, p_now) IS NOT DISTINCT FROM 'cancelled')::integer;
    END LOOP;
    RETURN n;
END $$;

-- Removes prospects from all lists permanently, and cancels their waiting e-mails. The prospects are locked first, in the same order as for a pause.
CREATE OR REPLACE FUNCTION fairpost.remove_prospects(p_ids bigint[], p_now timestamptz DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    PERFORM fairpost.require_own_prospects(p_ids);
    PERFORM FROM fairpost.prospects p WHERE p.id = ANY (p_ids) ORDER BY p.id FOR UPDATE;
    PERFORM fairpost.cancel_prospect(p.id, NULL, 'email.prospect_removed', '{}', p_now) FROM unnest(p_ids) p(id);
    DELETE FROM fairpost.opt_outs s WHERE s.prospect_id = ANY (p_ids);
    DELETE FROM fairpost.list_members m WHERE m.prospect_id = ANY (p_ids);
    DELETE FROM fairpost.prospects p WHERE p.id = ANY (p_ids);
END $$;

-- A transaction that parks an e-mail because its prospect is paused holds this lock in shared mode from the time it reads the pause until it commits.
-- Ending the pause takes the lock exclusively. Otherwise the e-mail could stay parked forever. All prospects share 64 locks, so even a batch of
-- thousands of prospects holds no more than 64 locks.
CREATE OR REPLACE FUNCTION fairpost.parking_lock() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT 738152666
$$;

CREATE OR REPLACE FUNCTION fairpost.is_still_paused(p_prospect bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    locked text;
BEGIN
    locked := pg_advisory_xact_lock_shared(fairpost.parking_lock(), (p_prospect % 64)::integer);
    RETURN (SELECT p.is_paused FROM fairpost.prospects p WHERE p.id = p_prospect);
END $$;

-- Pauses a prospect. The prospect's waiting e-mails now also wait for the pause to end. No e-mail is cancelled or sent twice.
CREATE OR REPLACE FUNCTION fairpost.pause_prospect(p_prospect bigint, p_paused boolean, p_now timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    moved bigint[];
    locked text;
BEGIN
    PERFORM fairpost.require_own_prospects(ARRAY[p_prospect]);
    UPDATE fairpost.prospects p SET is_paused = p_paused, changed_at = coalesce(p_now, clock_timestamp()) WHERE p.id = p_prospect AND p.is_paused <> p_paused;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_paused THEN
        moved := ARRAY(SELECT q.id FROM fairpost.queue q WHERE q.prospect_id = p_prospect AND q.waiting AND q.due_at < 'infinity' ORDER BY q.id FOR UPDATE SKIP LOCKED);
        UPDATE fairpost.queue q SET parked_due = q.due_at, due_at = 'infinity' WHERE q.id = ANY (moved);
    ELSE
        locked := pg_advisory_xact_lock(fairpost.parking_lock(), (p_prospect % 64)::integer);   -- by now, transactions that were parking e-mails have ended
        moved := ARRAY(SELECT q.id FROM fairpost.queue q WHERE q.prospect_id = p_prospect AND q.waiting AND q.parked_due IS NOT NULL ORDER BY q.step, q.id FOR UPDATE);
        UPDATE fairpost.queue q SET due_at = q.parked_due, parked_due = NULL WHERE q.id = ANY (moved);
        INSERT INTO fairpost.arrivals (route, class, workspace, domain, user_name, stream, flow, n, fresh, due_at, id)
        SELECT q.route, q.class, q.workspace, q.domain, q.user_name, q.stream, q.flow, 0, 0, min(q.due_at), min(q.id)
        FROM fairpost.queue q WHERE q.id = ANY (moved) GROUP BY 1, 2, 3, 4, 5, 6, 7;
    END IF;
    RETURN true;
END $$;
