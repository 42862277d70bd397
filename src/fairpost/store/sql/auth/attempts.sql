-- Limits on sign-in attempts.

CREATE OR REPLACE FUNCTION fairpost.address_key(p_workspace text, p_folded text) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT sha256(convert_to(concat(p_workspace, E'\n', p_folded), 'UTF8'))
$$;

-- Records an attempt, which counts as a failure until it is removed after success. Concurrent attempts therefore cannot exceed the limit.
-- `attempt_id` is null if there were too many failures; `free_at` is when the next attempt is allowed. Also deletes attempts that are
-- older than the window. Callers that also lock a person must lock the person first, so that no transaction waits for a person while holding these
-- locks.
CREATE OR REPLACE FUNCTION fairpost.take_attempt(
    p_address_key bytea, p_client_key bytea, p_address_max integer, p_client_max integer, p_window interval,
    p_now timestamptz DEFAULT NULL, OUT attempt_id bigint, OUT free_at timestamptz
)
LANGUAGE plpgsql AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    PERFORM pg_advisory_xact_lock(l.lock) FROM (
        SELECT DISTINCT hashtextextended(encode(k, 'hex'), 15) AS lock FROM unnest(ARRAY[p_address_key, p_client_key]) k
        WHERE k IS NOT NULL ORDER BY 1) l;
    DELETE FROM fairpost.sign_in_attempts a WHERE a.id IN (
        SELECT o.id FROM fairpost.sign_in_attempts o WHERE o.at <= t - p_window ORDER BY o.at LIMIT 100 FOR UPDATE SKIP LOCKED);
    free_at := greatest(
        (SELECT a.at FROM fairpost.sign_in_attempts a WHERE a.address_key = p_address_key AND a.at > t - p_window
         ORDER BY a.at DESC OFFSET p_address_max - 1 LIMIT 1),
        (SELECT a.at FROM fairpost.sign_in_attempts a WHERE a.client_key = p_client_key AND a.at > t - p_window
         ORDER BY a.at DESC OFFSET p_client_max - 1 LIMIT 1)) + p_window;
    IF free_at IS NULL THEN
        INSERT INTO fairpost.sign_in_attempts AS a (address_key, client_key, at) VALUES (p_address_key, p_client_key, t)
        RETURNING a.id INTO attempt_id;
    END IF;
END $$;

-- Deletes expired rows.
CREATE OR REPLACE FUNCTION fairpost.forget_sign_ins(p_now timestamptz DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    DELETE FROM fairpost.sign_ins s WHERE s.token_hash IN (
        SELECT o.token_hash FROM fairpost.sign_ins o WHERE o.expires_at < t - interval '1 day' LIMIT 1000 FOR UPDATE SKIP LOCKED);
    DELETE FROM fairpost.sessions s WHERE s.token_hash IN (
        SELECT o.token_hash FROM fairpost.sessions o WHERE o.expires_at < t - interval '30 days' LIMIT 1000 FOR UPDATE SKIP LOCKED);
    DELETE FROM fairpost.invitations i WHERE i.token_hash IN (
        SELECT o.token_hash FROM fairpost.invitations o WHERE o.expires_at < t - interval '30 days' LIMIT 1000 FOR UPDATE SKIP LOCKED);
END $$;
