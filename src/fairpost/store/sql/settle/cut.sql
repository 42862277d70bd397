-- Puts back in the queue an e-mail that a dead worker had started but not finished sending. The caller has proof that the worker is dead and that the
-- final dot of this attempt was never written, so there is no need to wait for the lease to expire. The attempt is logged as cut and still counts, so
-- that Fairpost eventually gives up on an e-mail that crashes its workers. Returns the new state. If the e-mail, attempt, account and epoch do not
-- all match, returns null and only changes the lease. If the provider can be asked about the e-mail, the e-mail is not put back in the queue, because
-- a later worker may have sent its draft.
CREATE OR REPLACE FUNCTION fairpost.cut(
    p_account bigint, p_epoch bigint, p_id bigint, p_attempt integer, p_due_at timestamptz, p_now timestamptz DEFAULT NULL
) RETURNS fairpost.email_state
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    why CONSTANT text := 'email.worker_died';
    email fairpost.queue;
    t timestamptz;
BEGIN
    PERFORM fairpost.drop_lease(p_account, p_epoch, p_now);
    PERFORM FROM fairpost.leases l WHERE l.account_id = p_account AND l.epoch > p_epoch FOR NO KEY UPDATE;
    IF NOT FOUND THEN   -- the account is gone, or the database was restored to an earlier state
        RETURN NULL;
    END IF;
    SELECT * INTO email FROM fairpost.queue q
    WHERE q.id = p_id AND q.account_id = p_account AND q.epoch = p_epoch AND q.attempts = p_attempt AND q.state IN ('sending', 'in_doubt') AND q.evidence IS NULL
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    t := coalesce(p_now, clock_timestamp());
    PERFORM fairpost.log_attempt(email, 'cut', '{}', t);
    UPDATE fairpost.leases l SET day_errors = l.day_errors + 1 WHERE l.account_id = p_account AND l.day_started_at <= email.begun_at;
    IF email.campaign_id IS NOT NULL THEN
        PERFORM fairpost.refund_quota(email);
    END IF;
    IF email.attempts >= email.attempts_max THEN
        PERFORM fairpost.finish(p_id, 'failed', why, t);
        RETURN 'failed';
    END IF;
    IF email.campaign_id IS NOT NULL AND EXISTS (SELECT FROM fairpost.campaigns c WHERE c.id = email.campaign_id AND c.state = 'cancelled') THEN
        PERFORM fairpost.finish(p_id, 'cancelled', 'email.campaign_cancelled', t);   -- otherwise the e-mail would wait forever
        RETURN 'cancelled';
    END IF;
    -- keeps account, epoch and begun_at, so that late proof that the e-mail was sent still prevents a second send
    UPDATE fairpost.queue q SET state = 'waiting', waiting = true, due_at = p_due_at, claimed_at = NULL, last_error = fairpost.in_one(why, '{}') WHERE q.id = p_id;
    PERFORM fairpost.note(ARRAY[p_id], 1);
    PERFORM fairpost.tell_of_email(email, 'email.delivery_delayed', why, '{}', t);
    RETURN 'waiting';
END $$;

-- Returns the key that distinguishes notes about this database from notes about others, including restored copies of it.
CREATE OR REPLACE FUNCTION fairpost.handover_key() RETURNS uuid
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp AS $$
    SELECT md5(concat_ws('|', (SELECT i.life FROM fairpost.identity i), coalesce(n.system_identifier, 0), n.database_oid, n.table_oid, coalesce(n.timeline, 0)))::uuid
    FROM fairpost.identity_now() n
$$;
