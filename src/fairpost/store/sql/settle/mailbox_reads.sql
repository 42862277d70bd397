-- Records which engine reads which mailbox, and the position up to which it has read. Each position is committed together with the findings up to it.

-- Returns the mailboxes that this engine reads from now on, which are its current mailboxes and free ones, up to `p_max`. A mailbox is free if its
-- engine has not been active for a minute. Releases mailboxes that should no longer be read. Needs the index accounts_read.
CREATE OR REPLACE FUNCTION fairpost.take_mailboxes(p_owner text, p_max integer, p_now timestamptz DEFAULT NULL)
RETURNS TABLE (account_id bigint, epoch bigint, settings text, "position" jsonb, looked_at timestamptz, failures integer, due_at timestamptz)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    room integer;
BEGIN
    UPDATE fairpost.mailbox_reads r SET owner = NULL
    WHERE r.owner = p_owner AND NOT EXISTS (SELECT FROM fairpost.accounts a WHERE a.id = r.account_id AND a.transport @> '{"read": true}');
    INSERT INTO fairpost.mailbox_reads (account_id)
    SELECT a.id FROM fairpost.accounts a WHERE a.transport @> '{"read": true}' AND NOT EXISTS (SELECT FROM fairpost.mailbox_reads r WHERE r.account_id = a.id)
    ORDER BY a.id ON CONFLICT DO NOTHING;
    room := p_max - (SELECT count(*) FROM fairpost.mailbox_reads r WHERE r.owner = p_owner);
    UPDATE fairpost.mailbox_reads r SET owner = p_owner, epoch = r.epoch + 1
    WHERE r.account_id IN (
        SELECT f.account_id FROM fairpost.mailbox_reads f JOIN fairpost.accounts a ON a.id = f.account_id
        WHERE a.transport @> '{"read": true}' AND f.owner IS DISTINCT FROM p_owner
            AND NOT EXISTS (SELECT FROM fairpost.engines e WHERE e.id = f.owner AND e.seen_at > t - interval '1 minute')
        ORDER BY f.looked_at NULLS FIRST, f.account_id LIMIT greatest(room, 0) FOR UPDATE OF f SKIP LOCKED);
    RETURN QUERY
    SELECT r.account_id, r.epoch, s.now, r.position, r.looked_at, CASE WHEN r.settings = s.now THEN r.failures ELSE 0 END, CASE WHEN r.settings = s.now THEN r.due_at END
    FROM fairpost.mailbox_reads r JOIN fairpost.accounts a ON a.id = r.account_id CROSS JOIN LATERAL (SELECT md5(a.address || a.transport::text) AS now) s
    WHERE r.owner = p_owner ORDER BY r.account_id;
END $$;

-- Stores the position after which reading continues. Returns false if another engine is now reading the mailbox. In that case, the caller must not
-- commit anything.
CREATE OR REPLACE FUNCTION fairpost.advance_mailbox(p_account bigint, p_epoch bigint, p_position jsonb) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
BEGIN
    UPDATE fairpost.mailbox_reads r SET position = p_position WHERE r.account_id = p_account AND r.epoch = p_epoch AND r.owner IS NOT NULL;
    RETURN FOUND;
END $$;

-- Records that all mail up to this position has been read. Called periodically and when something changes. Like advance_mailbox, returns false if
-- another engine is now reading the mailbox.
CREATE OR REPLACE FUNCTION fairpost.mailbox_looked(p_account bigint, p_epoch bigint, p_position jsonb, p_at timestamptz) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM fairpost.mailbox_reads r WHERE r.account_id = p_account AND r.epoch = p_epoch AND r.owner IS NOT NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE fairpost.mailbox_reads r SET position = p_position, looked_at = p_at, failures = 0, due_at = NULL, settings = NULL, reason = NULL, params = NULL, failed_at = NULL
    WHERE r.account_id = p_account AND r.epoch = p_epoch
        AND (r.position IS DISTINCT FROM p_position OR r.failures > 0 OR r.looked_at IS NULL OR r.looked_at < p_at - interval '5 minutes');
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION fairpost.mailbox_failed(
    p_account bigint, p_epoch bigint, p_settings text, p_reason text, p_params jsonb, p_due_at timestamptz, p_now timestamptz DEFAULT NULL
) RETURNS void
LANGUAGE sql SET search_path = fairpost, pg_catalog, pg_temp AS $$
    UPDATE fairpost.mailbox_reads r SET failures = CASE WHEN r.settings = p_settings THEN r.failures ELSE 0 END + 1, due_at = p_due_at, settings = p_settings, reason = p_reason,
        params = fairpost.shortened(p_params), failed_at = coalesce(r.failed_at, p_now, clock_timestamp())
    WHERE r.account_id = p_account AND r.epoch = p_epoch AND r.owner IS NOT NULL
$$;

-- Releases the mailboxes of an engine that is stopping.
CREATE OR REPLACE FUNCTION fairpost.leave_mailboxes(p_owner text) RETURNS void
LANGUAGE sql SET search_path = fairpost, pg_catalog, pg_temp AS $$
    UPDATE fairpost.mailbox_reads r SET owner = NULL WHERE r.owner = p_owner
$$;
