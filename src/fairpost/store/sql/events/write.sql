-- Writes all events except those of finished e-mails (see settle/finish.sql). Each event is written in the same transaction as the change that it
-- reports.

-- Writes an event about an e-mail that is in the queue and has been locked by the caller.
CREATE OR REPLACE FUNCTION fairpost.tell_of_email(email fairpost.queue, p_kind text, p_reason text, p_params jsonb, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO fairpost.outbox (at, kind, workspace, email_id, account_id, campaign_id, reason, params)
    VALUES (p_now, p_kind, email.workspace, email.id, email.account_id, email.campaign_id, p_reason, p_params);
END $$;

-- Writes an event for returned mail that has taken effect. Reports of successful delivery and feedback that is not a complaint have no effect.
CREATE OR REPLACE FUNCTION fairpost.tell_of_return(r fairpost.returned, email fairpost.emails, p_now timestamptz) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO fairpost.outbox (at, kind, workspace, email_id, account_id, campaign_id, address, reason, params)
    SELECT p_now, k.kind, r.workspace, r.email_id, email.account_id, email.campaign_id, r.address, r.reason, r.params
    FROM (VALUES ('bounced', 'email.bounced'), ('unconfirmed', 'email.bounced'), ('full', 'email.bounced'), ('undelivered', 'email.bounced'), ('delayed', 'email.delivery_delayed'), ('complained', 'email.complained'),
                 ('replied', 'email.replied'), ('away', 'email.auto_replied'), ('unsubscribed', 'email.unsubscribed')) k(effect, kind)
    WHERE k.effect = r.effect
$$;

-- Writes the event for a recipient who unsubscribed with a campaign's link. The link is the same in all of the campaign's e-mails, so the event
-- refers to the newest e-mail.
CREATE OR REPLACE FUNCTION fairpost.tell_of_unsubscribe(p_workspace text, p_prospect bigint, p_address text, p_now timestamptz DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    INSERT INTO fairpost.outbox (at, kind, workspace, email_id, account_id, campaign_id, address, reason, params)
    SELECT coalesce(p_now, clock_timestamp()), 'email.unsubscribed', p_workspace, e.id, e.account_id, e.campaign_id, fairpost.normalize_address(p_address), 'email.unsubscribed', '{}'
    FROM (VALUES (1)) one LEFT JOIN LATERAL (
        SELECT e.id, e.account_id, e.campaign_id FROM fairpost.emails e WHERE e.workspace = p_workspace AND e.prospect_id = p_prospect AND e.attempts > 0 ORDER BY e.id DESC LIMIT 1) e ON true;
END $$;

CREATE OR REPLACE FUNCTION fairpost.tell_of_campaign(c fairpost.campaigns, p_now timestamptz) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO fairpost.outbox (at, kind, workspace, campaign_id, subject, reason, params)
    SELECT p_now, k.kind, c.workspace, c.id, c.name, c.reason, c.reason_params
    FROM (VALUES ('running', 'campaign.started'), ('paused', 'campaign.paused'), ('completed', 'campaign.completed'), ('failed', 'campaign.failed')) k(state, kind) WHERE k.state = c.state::text
$$;

-- Writes events for new entries on the suppression list, whether there is one entry or an imported file with a million entries.
CREATE OR REPLACE FUNCTION fairpost.tell_of_suppressions() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO fairpost.outbox (at, kind, workspace, address, reason, params)
    SELECT clock_timestamp(), 'suppression.created', nullif(n.workspace, '*'), n.address, 'suppression.' || n.kind, jsonb_build_object('note', n.reason) FROM new_entries n;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION fairpost.tell_of_domain() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO fairpost.outbox (at, kind, workspace, subject) VALUES (NEW.proven_at, 'domain.verified', NEW.workspace, NEW.domain);
    RETURN NULL;
END $$;
