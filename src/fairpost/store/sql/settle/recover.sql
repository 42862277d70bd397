-- Recovers the e-mails of a lost lease. E-mails whose sending had started are now in doubt. All other e-mails go back to the queue. Callers have
-- fenced the old epoch. An e-mail that is being cancelled is left for the next claim or reap. Returns true if no e-mails are left.
DROP FUNCTION IF EXISTS fairpost.recover(bigint, bigint, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.recover(p_account bigint, p_epoch bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    lost CONSTANT bigint[] := ARRAY(SELECT q.id FROM fairpost.queue q WHERE q.account_id BETWEEN p_account AND p_account AND NOT q.waiting AND q.epoch < p_epoch AND q.state <> 'in_doubt'
                                    ORDER BY q.account_id, q.id);
    held bigint[];
    back bigint[];
BEGIN
    -- Every query of this kind uses a range and orders by both columns, so that the planner does not use the index on id alone, which contains all
    -- e-mails.
    held := ARRAY(SELECT q.id FROM fairpost.queue q WHERE q.account_id BETWEEN p_account AND p_account AND NOT q.waiting AND q.epoch < p_epoch AND q.state <> 'in_doubt'
                  ORDER BY q.account_id, q.id FOR UPDATE SKIP LOCKED);
    back := ARRAY(SELECT q.id FROM fairpost.queue q WHERE q.id = ANY (held) AND q.state = 'claimed');
    UPDATE fairpost.queue q SET state = 'waiting', waiting = true, claimed_at = NULL WHERE q.id = ANY (back);
    PERFORM fairpost.note(back, 1, true);
    WITH doubted AS (UPDATE fairpost.queue q SET state = 'in_doubt' WHERE q.id = ANY (held) AND q.state = 'sending' RETURNING q.*), told AS (
        INSERT INTO fairpost.outbox (at, kind, workspace, email_id, account_id, campaign_id, reason, params)
        SELECT clock_timestamp(), 'email.in_doubt', d.workspace, d.id, d.account_id, d.campaign_id, 'email.outcome_unknown', '{}' FROM doubted d
    )
    INSERT INTO fairpost.doubtful (account_id, email_id) SELECT p_account, d.id FROM doubted d;
    RETURN lost <@ held;
END $$;
