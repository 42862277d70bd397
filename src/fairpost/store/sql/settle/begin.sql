-- Records the intent to send. The record is committed, together with the charge to the account, right before the transport is called. `skip` lists
-- the recipients to omit. `p_step` is the number of this step, one more than the last acknowledged step. A repeated or late step changes nothing.
--
-- `verdict` is `begun`, or the reason why sending must not start, in which case nothing was charged:
--   stale              the lease is gone: stop
--   gone               the e-mail was cancelled, or this lease does not hold it
--   unconfirmed        the engines have not confirmed this server
--   late               this step or a later one was already taken
--   held               the e-mail's sender is held, or everything is paused: return the e-mail
--   inactive           the account is paused or suspended
--   changed            the account's settings have changed since the lease was taken
--   blocked            the e-mail's workspace is blocked from using this account: return the e-mail for other accounts
--   suppressed         all recipients are suppressed
--   expired            the e-mail has expired
--   closed, parked     for campaigns only (see gates.sql)
DROP FUNCTION IF EXISTS fairpost.begin_send(bigint, bigint, bigint, jsonb, jsonb, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.begin_send(
    p_account bigint, p_epoch bigint, p_id bigint, p_usage jsonb, p_evidence jsonb DEFAULT NULL, p_now timestamptz DEFAULT NULL, p_step bigint DEFAULT NULL,
    OUT verdict text, OUT skip text[], OUT attempt integer, OUT now timestamptz
)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    lease fairpost.leases;
    begun record;
    counted text;
BEGIN
    SELECT * INTO lease FROM fairpost.leases l WHERE l.account_id = p_account ORDER BY l.step DESC LIMIT 1 FOR NO KEY UPDATE;
    now := coalesce(p_now, clock_timestamp());
    IF lease.epoch IS DISTINCT FROM p_epoch OR lease.until <= now THEN
        verdict := 'stale';
        RETURN;
    ELSIF lease.server IS DISTINCT FROM pg_postmaster_start_time() OR lease.step <> p_step - 1 THEN
        verdict := CASE WHEN lease.step <> p_step - 1 THEN 'late' ELSE 'unconfirmed' END;
        RETURN;
    END IF;
    begun := fairpost.begin_email(lease, p_id, p_evidence, p_now);
    verdict := begun.verdict;
    skip := begun.skip;
    attempt := begun.attempt;
    now := begun.now;
    IF verdict = 'begun' THEN
        counted := fairpost.count_step(p_account, lease.step, NULL, NULL, NULL, p_id, p_usage, now);   -- an assignment, because PERFORM would run a whole query
    END IF;
END $$;

-- Records an individual send, for limits over a sliding period. Old rows are deleted when the lease is renewed, not with each send, because deleted
-- rows are still scanned while a transaction is held open.
CREATE OR REPLACE FUNCTION fairpost.charge(p_account bigint, p_id bigint, p_units integer, p_now timestamptz) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO fairpost.charges (account_id, at, email_id, units) VALUES (p_account, p_now, p_id, p_units);
$$;

CREATE OR REPLACE FUNCTION fairpost.forget_charges(p_account bigint, p_now timestamptz) RETURNS void
LANGUAGE sql AS $$
    DELETE FROM fairpost.charges c WHERE c.account_id = p_account AND c.at < p_now - interval '1 day 1 minute'
$$;

-- Returns the individual sends from the past day, oldest first.
CREATE OR REPLACE FUNCTION fairpost.charges_of(p_account bigint) RETURNS TABLE (at timestamptz, units integer)
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT c.at, c.units FROM fairpost.charges c WHERE c.account_id = p_account ORDER BY c.at   -- only columns that a tenant's request may read
$$;

-- The part of `begin_send` that concerns the e-mail. The lease row is locked and valid.
DROP FUNCTION IF EXISTS fairpost.begin_email(bigint, bigint, bigint, jsonb, timestamptz);
DROP FUNCTION IF EXISTS fairpost.begin_email(fairpost.leases, bigint, jsonb, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.begin_email(
    lease fairpost.leases, p_id bigint, p_evidence jsonb, p_now timestamptz, OUT verdict text, OUT skip text[], OUT attempt integer, OUT now timestamptz
)
LANGUAGE plpgsql AS $$
DECLARE
    email fairpost.queue;
    account record;
    locked text;
BEGIN
    -- Locks first, then reads, so that no pause can begin before the commit. These are written as assignments, which take a microsecond, because
    -- PERFORM would run a whole query. The time is read last, because the lease, the e-mail or the window may have expired while this waited.
    locked := pg_advisory_xact_lock_shared(fairpost.pause_lock());
    SELECT * INTO email FROM fairpost.queue q WHERE q.id = p_id AND q.account_id = lease.account_id AND q.epoch = lease.epoch AND q.state = 'claimed' FOR UPDATE SKIP LOCKED;
    IF email.campaign_id IS NOT NULL THEN
        locked := fairpost.lock_quotas(ARRAY[p_id], p_now);
    END IF;
    now := coalesce(p_now, clock_timestamp());
    IF lease.until <= now THEN
        verdict := 'stale';
        RETURN;
    ELSIF email.id IS NULL THEN
        verdict := 'gone';
        RETURN;
    END IF;
    skip := fairpost.suppressed(email.workspace, email.addresses, email.class);
    IF email.expires_at <= now OR email.addresses <@ skip THEN
        verdict := CASE WHEN email.expires_at <= now THEN 'expired' ELSE 'suppressed' END;
        PERFORM fairpost.finish_unsendable(p_id, now);
        RETURN;
    END IF;
    SELECT a.status, a.revision, EXISTS (SELECT FROM fairpost.blocks b WHERE b.account_id = a.id AND b.workspace = email.workspace AND b.until > begin_email.now) AS is_blocked
    INTO account FROM fairpost.accounts a WHERE a.id = lease.account_id;
    IF account.status <> 'active' OR account.revision <> lease.revision THEN
        verdict := CASE WHEN account.status <> 'active' THEN 'inactive' ELSE 'changed' END;
        RETURN;
    ELSIF account.is_blocked THEN
        verdict := 'blocked';
        RETURN;
    END IF;
    IF fairpost.is_barred(email.workspace, email.domain, email.user_name, email.stream, now) THEN
        verdict := 'held';
        RETURN;
    END IF;
    IF email.campaign_id IS NOT NULL THEN
        verdict := fairpost.admit_to_campaign(email, now);
        IF verdict IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;
    UPDATE fairpost.queue q SET state = 'sending', attempts = q.attempts + 1, begun_at = begin_email.now, evidence = p_evidence WHERE q.id = p_id;
    attempt := email.attempts + 1;
    verdict := 'begun';
END $$;

-- Returns whether the e-mail's workspace, domain, user or stream is held. Each rule is looked up by its whole key, because a workspace may have rules
-- for a hundred thousand users.
CREATE OR REPLACE FUNCTION fairpost.is_held(p_workspace text, p_domain text, p_user text, p_stream text, p_now timestamptz) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM fairpost.sender_rules r WHERE r.workspace = p_workspace AND r.level = 'workspace' AND r.key = '' AND greatest(r.held_until, r.throttled_until, r.closed_until) > p_now)
        OR EXISTS (SELECT FROM fairpost.sender_rules r WHERE r.workspace = p_workspace AND r.level = 'domain' AND r.key = p_domain AND greatest(r.held_until, r.throttled_until, r.closed_until) > p_now)
        OR EXISTS (SELECT FROM fairpost.sender_rules r WHERE r.workspace = p_workspace AND r.level = 'user' AND r.key = p_user AND greatest(r.held_until, r.throttled_until, r.closed_until) > p_now)
        OR EXISTS (SELECT FROM fairpost.sender_rules r WHERE r.workspace = p_workspace AND r.level = 'stream' AND r.key = p_stream AND greatest(r.held_until, r.throttled_until, r.closed_until) > p_now);
END $$;

-- Returns whether the e-mail is held or everything is paused.
CREATE OR REPLACE FUNCTION fairpost.is_barred(p_workspace text, p_domain text, p_user text, p_stream text, p_now timestamptz) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM fairpost.pauses p WHERE p.everything AND p.until > p_now) OR fairpost.is_held(p_workspace, p_domain, p_user, p_stream, p_now);
END $$;
