-- The life cycle of a campaign. Every transition specifies the state that it starts from, so only one of two identical requests takes effect.

-- Holds or releases a campaign's mail in the tree, regardless of its schedule.
CREATE OR REPLACE FUNCTION fairpost.hold_campaign(p_campaign bigint, p_reason text, p_now timestamptz) RETURNS void
LANGUAGE sql AS $$
    SELECT fairpost.hold(s.workspace, 'stream', s.stream, 'infinity', p_reason, jsonb_build_object('campaign', c.name), p_now)
    FROM fairpost.campaign_streams s JOIN fairpost.campaigns c ON c.id = s.campaign_id WHERE s.campaign_id = p_campaign ORDER BY s.stream
$$;

CREATE OR REPLACE FUNCTION fairpost.free_campaign(p_campaign bigint, p_now timestamptz) RETURNS void
LANGUAGE sql AS $$
    SELECT fairpost.release(s.workspace, 'stream', s.stream, p_now)
    FROM fairpost.campaign_streams s WHERE s.campaign_id = p_campaign ORDER BY s.stream
$$;

-- Changes the state of a campaign that is in one of the given states, optionally with a reason (a code with parameters). If the campaign is in none
-- of these states, returns null and changes nothing.
DROP FUNCTION IF EXISTS fairpost.move_campaign(bigint, fairpost.campaign_state[], fairpost.campaign_state, text, text, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.move_campaign(
    p_campaign bigint, p_from fairpost.campaign_state[], p_to fairpost.campaign_state, p_reason text, p_params jsonb, p_by text, p_now timestamptz DEFAULT NULL
) RETURNS fairpost.campaigns
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    t timestamptz;
    before fairpost.campaigns;
    after fairpost.campaigns;
BEGIN
    PERFORM fairpost.require_own_campaign(p_campaign);
    SELECT * INTO before FROM fairpost.campaigns c WHERE c.id = p_campaign FOR NO KEY UPDATE;
    t := coalesce(p_now, clock_timestamp());
    IF before.state <> ALL (p_from) OR before.id IS NULL THEN
        RETURN NULL;
    END IF;
    UPDATE fairpost.campaigns c SET
        state = CASE WHEN p_to = 'running' AND c.starts_at > t THEN 'scheduled' ELSE p_to END, reason = p_reason, reason_params = CASE WHEN p_reason IS NOT NULL THEN fairpost.shortened(coalesce(p_params, '{}')) END,
        finished_at = CASE WHEN p_to IN ('completed', 'failed') THEN t END
    WHERE c.id = p_campaign RETURNING * INTO after;
    INSERT INTO fairpost.events (at, kind, workspace, subject, detail)
    VALUES (t, 'campaign_' || after.state, after.workspace, after.name, jsonb_strip_nulls(jsonb_build_object('before', before.state, 'reason', after.reason, 'params', after.reason_params, 'by', p_by)));
    PERFORM fairpost.tell_of_campaign(after, t);
    RETURN after;
END $$;

-- Pauses a campaign. After the commit, no further sends start. Sends already in progress are completed. `p_reason` is the caller's own text.
CREATE OR REPLACE FUNCTION fairpost.pause_campaign(p_campaign bigint, p_reason text, p_by text, p_now timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    moved CONSTANT fairpost.campaigns := fairpost.move_campaign(p_campaign, '{scheduled,running}', 'paused', CASE WHEN p_reason <> '' THEN 'campaign.paused_by_hand' END, jsonb_build_object('note', p_reason), p_by, p_now);
BEGIN
    IF moved.id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM fairpost.hold_campaign(p_campaign, 'hold.campaign_paused', p_now);
    PERFORM fairpost.await_begins();
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION fairpost.resume_campaign(p_campaign bigint, p_by text, p_now timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    moved CONSTANT fairpost.campaigns := fairpost.move_campaign(p_campaign, '{paused,failed}', 'running', NULL, NULL, p_by, p_now);
BEGIN
    IF moved.id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM fairpost.free_campaign(p_campaign, p_now);
    PERFORM fairpost.set_gates(moved.workspace, NULL, p_now);
    RETURN true;
END $$;

-- Cancels a campaign. From then on, no further sends start, and an engine removes the rows, however many there are. A completed campaign can be
-- cancelled as long as it still has e-mails in the queue.
CREATE OR REPLACE FUNCTION fairpost.cancel_campaign(p_campaign bigint, p_reason text, p_by text, p_now timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    may_be CONSTANT fairpost.campaign_state[] := CASE WHEN EXISTS (SELECT FROM fairpost.queue q WHERE q.campaign_id = p_campaign)
        THEN '{draft,scheduled,running,paused,failed,completed}' ELSE '{draft,scheduled,running,paused,failed}' END;
    moved CONSTANT fairpost.campaigns := fairpost.move_campaign(p_campaign, may_be, 'cancelled', CASE WHEN p_reason <> '' THEN 'campaign.cancelled_by_hand' END, jsonb_build_object('note', p_reason), p_by, p_now);
BEGIN
    IF moved.id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM fairpost.hold_campaign(p_campaign, 'hold.campaign_cancelled', p_now);
    PERFORM fairpost.await_begins();
    RETURN true;
END $$;

-- Removes the waiting e-mails of a cancelled campaign, last steps first. Returns true when only claimed e-mails are left. The claimed e-mails remain
-- until the workers have finished with them.
CREATE OR REPLACE FUNCTION fairpost.clear_campaign(p_campaign bigint, p_max integer, p_now timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    why jsonb;   -- the note by the person who cancelled the campaign
    gone bigint[];
BEGIN
    SELECT coalesce(c.reason_params, '{}') INTO why FROM fairpost.campaigns c WHERE c.id = p_campaign AND c.state = 'cancelled';
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    gone := ARRAY(SELECT q.id FROM fairpost.queue q WHERE q.campaign_id = p_campaign AND q.waiting ORDER BY q.due_at DESC LIMIT p_max FOR UPDATE SKIP LOCKED);
    PERFORM fairpost.note(gone, -1);
    -- Finishes all of them at once. Their next steps need no update, because they are removed as well, with the same reason.
    PERFORM fairpost.move_to_history(gone, 'cancelled', 'email.campaign_cancelled', why, t);   -- their campaign is over, so they have no next step
    IF EXISTS (SELECT FROM fairpost.queue q WHERE q.campaign_id = p_campaign AND q.state <> 'in_doubt') THEN
        RETURN cardinality(gone) < p_max;
    END IF;
    UPDATE fairpost.campaigns c SET finished_at = t WHERE c.id = p_campaign AND c.finished_at IS NULL;
    PERFORM fairpost.forget_gates(p_campaign, t);
    RETURN true;
END $$;

-- Deletes the rules for the campaign's streams, because the campaign has no more waiting e-mails.
CREATE OR REPLACE FUNCTION fairpost.forget_gates(p_campaign bigint, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    s fairpost.campaign_streams;
    named bigint[];
    rule fairpost.sender_rules;
BEGIN
    FOR s IN SELECT * FROM fairpost.campaign_streams x WHERE x.campaign_id = p_campaign ORDER BY x.stream LOOP
        named := fairpost.lock_named(s.workspace, 'stream', s.stream);
        UPDATE fairpost.sender_rules r SET held_until = NULL, hold_reason = NULL, hold_params = NULL, closed_until = NULL, closed_reason = NULL, closed_params = NULL
        WHERE r.workspace = s.workspace AND r.level = 'stream' AND r.key = s.stream RETURNING * INTO rule;
        IF FOUND THEN
            PERFORM fairpost.apply_rule(named, rule, p_now);
            DELETE FROM fairpost.sender_rules r WHERE r.workspace = s.workspace AND r.level = 'stream' AND r.key = s.stream AND r.weight IS NULL;
        END IF;
    END LOOP;
END $$;

-- Marks the campaign as unable to continue until a person intervenes. Holds its mail, because otherwise engines would keep claiming mail that they
-- cannot send. Returns null if the campaign was not running.
DROP FUNCTION IF EXISTS fairpost.fail_campaign(bigint, text, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.fail_campaign(p_campaign bigint, p_reason text, p_params jsonb, p_now timestamptz DEFAULT NULL) RETURNS fairpost.campaigns
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    moved CONSTANT fairpost.campaigns := fairpost.move_campaign(p_campaign, '{scheduled,running}', 'failed', p_reason, p_params, 'itself', p_now);
BEGIN
    IF moved.id IS NOT NULL THEN
        PERFORM fairpost.hold_campaign(p_campaign, 'hold.campaign_failed', p_now);
    END IF;
    RETURN moved;
END $$;

-- Changes the state of campaigns that are due for a transition. Scheduled campaigns are due at their start time, running campaigns are due when they
-- have no e-mail that could proceed or no account to send it, and completed campaigns are due when e-mails can proceed again. The cost depends on the
-- number of live campaigns. Returns the campaigns that changed.
DROP FUNCTION IF EXISTS fairpost.advance_campaigns(timestamptz);
CREATE OR REPLACE FUNCTION fairpost.advance_campaigns(p_now timestamptz DEFAULT NULL) RETURNS TABLE (workspace text, name text, state fairpost.campaign_state, reason text, reason_params jsonb)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    c fairpost.campaigns;
    moved fairpost.campaigns;
    held bigint;
BEGIN
    -- The campaign is locked before it is examined, so that no e-mails are added in the meantime. Campaigns locked by other transactions are left for
    -- the next call, to prevent deadlocks.
    FOR c IN
        SELECT * FROM fairpost.campaigns x
        WHERE x.state = 'scheduled' AND x.starts_at <= t
        OR x.state = 'completed' AND x.reason IS NOT NULL AND (fairpost.has_work(x.id) OR NOT EXISTS (SELECT FROM fairpost.queue q WHERE q.campaign_id = x.id))
        OR x.state = 'running' AND (x.planned_at IS NOT NULL AND NOT fairpost.has_work(x.id) OR NOT fairpost.has_senders(x))
        ORDER BY x.id FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        moved := NULL;
        IF c.state = 'scheduled' THEN
            moved := fairpost.move_campaign(c.id, '{scheduled}', 'running', NULL, NULL, 'time', p_now);
        ELSIF c.state = 'completed' AND fairpost.has_work(c.id) THEN
            moved := fairpost.move_campaign(c.id, '{completed}', 'running', NULL, NULL, 'an e-mail that moves again', p_now);
        ELSIF c.state = 'completed' AND NOT EXISTS (SELECT FROM fairpost.queue q WHERE q.campaign_id = c.id) THEN
            UPDATE fairpost.campaigns x SET reason = NULL, reason_params = NULL WHERE x.id = c.id;   -- the hold has ended
        ELSIF c.state = 'running' AND c.planned_at IS NOT NULL AND NOT fairpost.has_work(c.id) THEN
            held := (SELECT count(*) FROM fairpost.queue q WHERE q.campaign_id = c.id);
            moved := fairpost.move_campaign(c.id, '{running}', 'completed', CASE WHEN held > 0 THEN 'campaign.emails_held' END, jsonb_build_object('count', held), 'itself', p_now);
            IF held = 0 THEN
                PERFORM fairpost.forget_gates(c.id, t);
            END IF;
        ELSIF c.state = 'running' AND NOT fairpost.has_senders(c) THEN
            moved := CASE WHEN left(c.route, 1) = '@' THEN fairpost.fail_campaign(c.id, 'campaign.account_removed', jsonb_build_object('account', substr(c.route, 2)), p_now)
                     ELSE fairpost.fail_campaign(c.id, 'campaign.pool_emptied', jsonb_build_object('pool', c.route), p_now) END;
        END IF;
        IF moved.id IS NOT NULL THEN
            RETURN QUERY SELECT moved.workspace, moved.name, moved.state, moved.reason, moved.reason_params;
        END IF;
    END LOOP;
END $$;

-- Returns whether any of the campaign's e-mails will proceed without intervention. An e-mail needs intervention if it is in doubt and held, waits for
-- such an e-mail, or is for a paused prospect.
CREATE OR REPLACE FUNCTION fairpost.has_work(p_campaign bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    -- Starts at the end of the index, because entries for deleted rows are at its beginning.
    SELECT (SELECT true FROM fairpost.queue q WHERE q.campaign_id = p_campaign AND q.due_at < 'infinity' AND NOT (q.state = 'in_doubt' AND q.on_doubt = 'hold' AND (q.evidence IS NULL OR q.evidence ? 'unknown'))
            ORDER BY q.due_at DESC LIMIT 1) IS NOT NULL
$$;

-- Returns whether there is an account that may send the campaign's remaining e-mails.
CREATE OR REPLACE FUNCTION fairpost.has_senders(c fairpost.campaigns) RETURNS boolean
LANGUAGE sql STABLE AS $$
    -- no index contains the pool; ORDER BY makes the planner use an index in this order instead of a sequential scan
    SELECT (SELECT true FROM fairpost.accounts a WHERE c.route IN (a.pool, '@' || a.name) ORDER BY a.id LIMIT 1) IS NOT NULL
        OR EXISTS (SELECT FROM fairpost.queue q WHERE q.campaign_id = c.id AND q.due_at < 'infinity' AND left(q.route, 1) = '@'
                   AND (SELECT true FROM fairpost.accounts a WHERE a.name = substr(q.route, 2) LIMIT 1))
$$;

-- Fails follow-ups that are due on an account that no longer exists, because no other account may send them. Returns the number of e-mails that
-- failed. If the number is `p_max`, call again. (If the account is only suspended, follow-ups wait. See settle/pinned.sql.)
CREATE OR REPLACE FUNCTION fairpost.fail_stranded(p_max integer, p_now timestamptz DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    stranded record;
    n integer := 0;
BEGIN
    FOR stranded IN
        WITH RECURSIVE pinned(route) AS (
            (SELECT q.route FROM fairpost.queue q WHERE q.campaign_id IS NOT NULL AND q.waiting AND left(q.route, 1) = '@' ORDER BY q.route LIMIT 1)
            UNION ALL
            SELECT (SELECT q.route FROM fairpost.queue q WHERE q.campaign_id IS NOT NULL AND q.waiting AND left(q.route, 1) = '@' AND q.route > p.route ORDER BY q.route LIMIT 1)
            FROM pinned p WHERE p.route IS NOT NULL
        ), lost AS (
            SELECT p.route, jsonb_build_object('account', substr(p.route, 2)) AS whose
            FROM pinned p WHERE p.route IS NOT NULL AND (SELECT true FROM fairpost.accounts a WHERE a.name = substr(p.route, 2) LIMIT 1) IS NULL
        )
        SELECT q.id, l.whose FROM lost l CROSS JOIN LATERAL (
            SELECT q.id FROM fairpost.queue q WHERE q.campaign_id IS NOT NULL AND q.waiting AND left(q.route, 1) = '@' AND q.route = l.route AND q.due_at <= t
            ORDER BY q.due_at LIMIT p_max FOR UPDATE SKIP LOCKED) q LIMIT p_max
    LOOP
        PERFORM fairpost.note(ARRAY[stranded.id], -1);
        PERFORM fairpost.finish(stranded.id, 'failed', 'email.account_removed', t, p_params => stranded.whose);
        n := n + 1;
    END LOOP;
    RETURN n;
END $$;
