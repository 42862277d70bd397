-- Processes mail that comes back after an e-mail was handed over: finds the e-mail concerned and applies the effects. Each finding is recorded once
-- and applied once. If the same mail arrives twice, or in a different order, the resulting state is the same.

-- Returns the e-mail that a finding is about, or no row if that is uncertain. An uncertain finding has no effect. `p_candidates` are the ids found in
-- the mail, most likely first. With `p_is_token`, the first id was in the address that the mail was sent to. An id alone is not proof, because others
-- may have seen it. In addition, the address must be one of the e-mail's recipients, or a token must identify the only recipient. Mail in an
-- account's mailbox (`p_account`) can only be about e-mails sent from that account. With `p_by_name`, the complete Message-ID is enough for an e-mail
-- to one person, because this person may reply from another address or let someone else reply. As a last resort, such mail is matched by recipient
-- and time. This works only if a single e-mail, or several e-mails of one sequence, were sent to this address within two weeks. If there are several,
-- it makes no difference which of them is meant.
DROP FUNCTION IF EXISTS fairpost.match_return(bigint[], boolean, bigint, text[], text[], boolean, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.match_return(
    p_candidates bigint[], p_is_token boolean, p_account bigint, p_addresses text[], p_message_ids text[], p_is_report boolean, p_by_name boolean, p_now timestamptz
) RETURNS TABLE (email_id bigint, workspace text, address text)
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    folded CONSTANT text[] := ARRAY(SELECT fairpost.normalize_address(a) FROM unnest(p_addresses) a);
    window_length CONSTANT interval := interval '14 days';
    email record;
BEGIN
    FOR email IN
        SELECT x.* FROM unnest(p_candidates) WITH ORDINALITY c(id, place) CROSS JOIN LATERAL (
            SELECT e.id, e.workspace, e.account_id, e.recipients, e.message_id, c.place FROM fairpost.emails e WHERE e.id = c.id AND e.attempts > 0
            UNION ALL
            SELECT q.id, q.workspace, q.account_id, q.recipients, NULL, c.place FROM fairpost.queue q WHERE q.id = c.id AND q.attempts > 0) x
        WHERE p_account IS NULL OR x.account_id = p_account ORDER BY x.place
    LOOP
        RETURN QUERY SELECT email.id, email.workspace, a FROM fairpost.people_of(email.recipients) a WHERE a = ANY (folded) LIMIT 1;
        IF FOUND THEN
            RETURN;
        ELSIF jsonb_array_length(email.recipients) = 1 AND (p_is_token AND email.place = 1 OR p_by_name AND email.message_id = ANY (p_message_ids)) THEN
            RETURN QUERY SELECT email.id, email.workspace, a FROM fairpost.people_of(email.recipients) a;
            RETURN;
        END IF;
    END LOOP;
    IF p_account IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH sent AS MATERIALIZED (
        SELECT e.id, e.workspace, e.campaign_id, e.prospect_id, e.message_id = ANY (p_message_ids) AS is_named, f.address
        FROM unnest(folded) f(address) CROSS JOIN LATERAL (
            SELECT * FROM fairpost.emails e WHERE fairpost.address_mark(e.recipients) = hashtext(f.address)
            AND e.account_id = p_account AND e.state IN ('sent', 'bounced')
            AND e.finished_at BETWEEN p_now - window_length AND p_now AND jsonb_array_length(e.recipients) = 1 ORDER BY e.id DESC LIMIT 20) e
        WHERE fairpost.normalize_address(e.recipients #>> '{0,address}') = f.address
    )
    SELECT s.id, s.workspace, s.address FROM sent s
    WHERE s.is_named OR NOT EXISTS (SELECT FROM sent o WHERE o.is_named)
        AND ((SELECT count(*) FROM sent) = 1
             OR NOT p_is_report AND s.prospect_id IS NOT NULL AND NOT EXISTS (SELECT FROM sent o WHERE (o.campaign_id, o.prospect_id) IS DISTINCT FROM (s.campaign_id, s.prospect_id)))
    ORDER BY s.id DESC LIMIT 1;
END $$;

CREATE OR REPLACE FUNCTION fairpost.people_of(recipients jsonb) RETURNS SETOF text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT fairpost.normalize_address(r ->> 'address') FROM jsonb_array_elements(recipients) r
$$;

-- Records the findings from a message and applies those that can be applied now. `p_findings`: [{address, aliases, effect, reason, params, back_on,
-- by_name}]. Returns each finding with the e-mail that it is about (null: uncertain) and whether it is new. `p_mail` is the message itself if it
-- should be kept (see replies.sql).
DROP FUNCTION IF EXISTS fairpost.take_return(text, bigint, bigint[], boolean, text[], jsonb, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.take_return(
    p_source text, p_account bigint, p_candidates bigint[], p_is_token boolean, p_message_ids text[], p_findings jsonb, p_now timestamptz DEFAULT NULL,
    p_mail jsonb DEFAULT NULL
) RETURNS TABLE (email_id bigint, workspace text, address text, effect text, is_new boolean)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    finding record;
    found record;
    written fairpost.returned;
BEGIN
    FOR finding IN SELECT f.* FROM jsonb_to_recordset(p_findings) f(address text, aliases text[], effect text, reason text, params jsonb, back_on date, by_name boolean) LOOP
        SELECT m.email_id, m.workspace, m.address INTO found FROM fairpost.match_return(
            p_candidates, p_is_token, p_account, finding.address || coalesce(finding.aliases, '{}'), p_message_ids,
            finding.effect IN ('bounced', 'unconfirmed', 'full', 'undelivered', 'delayed', 'delivered'), coalesce(finding.by_name, false), t) m;
        written := NULL;
        INSERT INTO fairpost.returned AS r (workspace, email_id, address, effect, reason, params, source, account_id, back_on, at)
        VALUES (found.workspace, found.email_id, coalesce(found.address, left(fairpost.normalize_address(finding.address), 320)), finding.effect, finding.reason,
            fairpost.shortened(coalesce(finding.params, '{}')), p_source, p_account, finding.back_on, t)
        ON CONFLICT DO NOTHING RETURNING r.* INTO written;
        IF written.email_id IS NOT NULL THEN
            PERFORM fairpost.apply_return(written.id, t);
        ELSIF written.id % 100 = 0 THEN
            PERFORM fairpost.prune_unknown_returns();
        END IF;
        IF found.email_id IS NOT NULL AND p_mail IS NOT NULL THEN
            PERFORM fairpost.keep_reply(found.email_id, found.workspace, found.address, p_account, p_mail, t);
        END IF;
        RETURN QUERY SELECT found.email_id, found.workspace, coalesce(found.address, left(fairpost.normalize_address(finding.address), 320)), finding.effect, written.id IS NOT NULL;
    END LOOP;
END $$;

-- Keeps the newest 10,000 findings whose e-mail is unknown. Older ones are deleted after every hundredth finding. Needs the index returned_unknown.
CREATE OR REPLACE FUNCTION fairpost.prune_unknown_returns() RETURNS void
LANGUAGE sql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
    DELETE FROM fairpost.returned r WHERE r.email_id IS NULL AND r.id <= (SELECT o.id FROM fairpost.returned o WHERE o.email_id IS NULL ORDER BY o.id DESC OFFSET 10000 LIMIT 1)
$$;

-- Applies one finding. Returns false if its e-mail is not finished yet, or if the finding was applied before. Takes the same locks as a settlement: the
-- lease, the e-mail, then its follow-ups. Also writes the events about it, because returned mail takes effect only in this function.
CREATE OR REPLACE FUNCTION fairpost.apply_return(p_id bigint, p_now timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    r fairpost.returned;
    email fairpost.emails;
    lease fairpost.leases;
    said text;
BEGIN
    SELECT l.* INTO lease FROM fairpost.returned x CROSS JOIN LATERAL (
        SELECT e.account_id FROM fairpost.emails e WHERE e.id = x.email_id UNION ALL SELECT q.account_id FROM fairpost.queue q WHERE q.id = x.email_id LIMIT 1) e
    JOIN fairpost.leases l ON l.account_id = e.account_id WHERE x.id = p_id AND x.effect IN ('bounced', 'unconfirmed', 'complained') ORDER BY l.step DESC LIMIT 1 FOR NO KEY UPDATE OF l;
    SELECT * INTO r FROM fairpost.returned x WHERE x.id = p_id AND x.email_id IS NOT NULL AND x.applied_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    SELECT * INTO email FROM fairpost.emails e WHERE e.id = r.email_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;   -- the e-mail is being sent, in doubt, or waiting for a retry; the finding is applied when the e-mail is finished
    END IF;
    said := coalesce(nullif(r.params ->> 'reply', ''), r.reason);
    CASE r.effect
    WHEN 'bounced', 'unconfirmed', 'full', 'undelivered' THEN
        PERFORM fairpost.bounce_late(email, t);
        PERFORM fairpost.suppress_returned(r, said, t);
    WHEN 'complained' THEN
        PERFORM fairpost.suppress(r.workspace, r.address, said, t, 'complaint');
    WHEN 'unsubscribed' THEN
        PERFORM fairpost.suppress(r.workspace, r.address, said, t, 'unsubscribe');
    WHEN 'replied' THEN
        PERFORM fairpost.stop_answered(email, r.params ->> 'company', t);
    WHEN 'away' THEN
        UPDATE fairpost.queue q SET due_at = fairpost.not_before(q.due_at, r.back_on), parked_due = fairpost.not_before(q.parked_due, r.back_on)
        WHERE q.follows = r.email_id AND q.campaign_id IS NOT NULL AND q.waiting AND r.back_on IS NOT NULL;
    ELSE
        NULL;   -- the finding is only displayed and changes nothing
    END CASE;
    IF r.effect IN ('bounced', 'unconfirmed', 'complained') AND lease.account_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM fairpost.returned x WHERE x.email_id = r.email_id AND x.address = r.address AND x.applied_at IS NOT NULL
            AND ARRAY[x.effect, r.effect] <@ ARRAY['bounced', 'unconfirmed']) THEN   -- several reports about the same e-mail count as one bounce
        PERFORM fairpost.count_returned(lease, email, r.effect, t);
    END IF;
    UPDATE fairpost.returned x SET applied_at = t WHERE x.id = r.id;
    PERFORM fairpost.tell_of_return(r, email, t);
    RETURN true;
END $$;

-- If a time is before the given day, returns the same time of day (UTC) on that day. Otherwise, returns the time unchanged.
CREATE OR REPLACE FUNCTION fairpost.not_before(moment timestamptz, day date) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN moment < day::timestamp AT TIME ZONE 'UTC' THEN (day + (moment AT TIME ZONE 'UTC')::time) AT TIME ZONE 'UTC' ELSE moment END
$$;

-- Changes the state of an e-mail from sent to bounced if it has bounced for all its recipients. The next step of its sequence is never sent.
CREATE OR REPLACE FUNCTION fairpost.bounce_late(email fairpost.emails, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    why fairpost.returned;
    follower bigint;
BEGIN
    IF email.state NOT IN ('sent', 'bounced') OR EXISTS (
        SELECT FROM fairpost.people_of(email.recipients) a
        WHERE NOT EXISTS (SELECT FROM fairpost.returned r WHERE r.email_id = email.id AND r.address = a AND r.effect IN ('bounced', 'unconfirmed', 'full', 'undelivered'))) THEN
        RETURN;
    END IF;
    SELECT * INTO why FROM fairpost.returned r WHERE r.email_id = email.id AND r.effect IN ('bounced', 'unconfirmed', 'full', 'undelivered')
    ORDER BY r.effect = 'bounced' DESC, r.reason, r.address LIMIT 1;   -- the result does not depend on the order in which reports arrive
    UPDATE fairpost.emails e SET state = 'bounced', reason = why.reason, reason_params = why.params WHERE e.id = email.id;
    IF email.campaign_id IS NOT NULL THEN
        FOR follower IN SELECT q.id FROM fairpost.queue q WHERE q.follows = email.id AND q.campaign_id IS NOT NULL LOOP
            PERFORM fairpost.cancel_email(follower, 'email.step_not_reached', '{}', p_now);
        END LOOP;
    END IF;
END $$;

-- Has the same effect as a refusal during the SMTP conversation: an address is suppressed if it does not exist or if its mailbox was reported full
-- too often. An address that only seems dead is suppressed when a second report about it arrives. Returned mail is counted separately, because these
-- servers first accepted the mail, which resets the count of soft bounces.
CREATE OR REPLACE FUNCTION fairpost.suppress_returned(r fairpost.returned, said text, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    window_length CONSTANT interval := interval '30 days';
    most CONSTANT integer := CASE WHEN r.effect = 'unconfirmed' THEN 2 ELSE (SELECT x.soft_bounces_max FROM fairpost.suppression_rule x) END;
    times bigint;
BEGIN
    IF r.effect = 'bounced' THEN
        PERFORM fairpost.suppress(r.workspace, r.address, 'hard bounce: ' || said, p_now, 'hard_bounce');
    ELSIF r.effect IN ('unconfirmed', 'full') AND most > 0 THEN
        times := (SELECT count(*) FROM fairpost.returned x WHERE x.address = r.address AND x.workspace = r.workspace AND x.effect = r.effect AND x.at > p_now - window_length);
        IF times >= most THEN
            PERFORM fairpost.suppress(r.workspace, r.address, format('%s e-mails were returned, the last: %s', times, said), p_now,
                CASE WHEN r.effect = 'full' THEN 'soft_bounces' ELSE 'hard_bounce' END);
        END IF;
    END IF;
END $$;

-- Called when the person has replied. No more e-mails from this campaign are sent to this person or, if a company's domain is given, to any address
-- at this domain. This reads the campaign's waiting e-mails. A send in progress is not stopped.
CREATE OR REPLACE FUNCTION fairpost.stop_answered(email fairpost.emails, p_company text, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    person bigint;
BEGIN
    IF email.prospect_id IS NULL OR email.campaign_id IS NULL THEN
        RETURN;
    END IF;
    FOR person IN
        SELECT email.prospect_id
        UNION
        SELECT q.prospect_id FROM fairpost.queue q JOIN fairpost.prospects p ON p.id = q.prospect_id
        WHERE q.campaign_id = email.campaign_id AND split_part(p.folded, '@', 2) = fairpost.normalize_domain(p_company) ORDER BY 1
    LOOP
        INSERT INTO fairpost.opt_outs (prospect_id, campaign_id, reason, params, at) VALUES (person, email.campaign_id, 'prospect.replied', '{}', p_now) ON CONFLICT DO NOTHING;
        PERFORM fairpost.cancel_prospect(person, email.campaign_id, 'email.prospect_replied', '{}', p_now);
    END LOOP;
END $$;

-- Adds to today's bounce counts for the account and the sender. This affects the sender's score. A complaint counts as a refusal. The caller holds
-- the lease row.
CREATE OR REPLACE FUNCTION fairpost.count_returned(lease fairpost.leases, email fairpost.emails, p_effect text, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    durability CONSTANT text := current_setting('synchronous_commit');
    bounces CONSTANT integer := (p_effect <> 'complained')::integer;
BEGIN
    UPDATE fairpost.leases l SET day_bounces = l.day_bounces + bounces WHERE l.account_id = lease.account_id AND l.step = lease.step;
    PERFORM fairpost.book(lease.account_id, lease.epoch, jsonb_build_array(jsonb_build_object(
        'workspace', email.workspace, 'user', email.user_name, 'is_fair', (SELECT fairpost.is_fair(email.workspace, f.share) FROM fairpost.fairness f WHERE f.single),
        'handled', 0, 'bounces', bounces, 'refused', 0, 'sent', 0, 'bounced', bounces, 'rejected', 1 - bounces)), '[]', p_now);
    PERFORM set_config('synchronous_commit', durability, true);   -- counters alone need not be durable, but the rest of this commit must be
END $$;

-- Returns the ids of findings whose e-mails have finished in the meantime, to pass to apply_return one by one.
CREATE OR REPLACE FUNCTION fairpost.returns_to_apply(p_max integer DEFAULT 100) RETURNS SETOF bigint
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT r.id FROM fairpost.returned r WHERE r.email_id IS NOT NULL AND r.applied_at IS NULL AND EXISTS (SELECT FROM fairpost.emails e WHERE e.id = r.email_id) ORDER BY r.id LIMIT p_max
$$;
