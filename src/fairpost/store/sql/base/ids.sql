-- Returns an id that increases over time. The upper bits contain milliseconds, and the lower bits contain a wrapping counter. History is partitioned
-- by id.
CREATE OR REPLACE FUNCTION fairpost.new_id() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT ((extract(epoch FROM clock_timestamp()) * 1000)::bigint << 20) | nextval('fairpost.id_serial')
$$;

-- Returns the smallest id that can be created at the given time.
CREATE OR REPLACE FUNCTION fairpost.first_id_at(moment timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT (extract(epoch FROM moment) * 1000)::bigint << 20
$$;

-- Returns the leaf for an e-mail. The leaf is computed without a lookup, so that concurrent enqueuers never conflict. Staging decides where the leaf
-- is attached. For mail that was enqueued before users had homes, the leaves were hashed without the word 'home'. Such mail keeps its own leaves
-- until they are empty.
CREATE OR REPLACE FUNCTION fairpost.flow_of(
    route text, class fairpost.email_class, workspace text, domain text, user_name text, stream text
) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT encode(substring(sha256(convert_to(
        concat_ws(E'\x1f', 'home', route, class::text, workspace, domain, user_name, stream), 'UTF8')) FOR 16), 'hex')::uuid
$$;

-- Campaign keys ("prospect:sequence:step") and callers' keys have separate namespaces, so a caller's key that looks like a campaign key is hashed
-- differently.
CREATE OR REPLACE FUNCTION fairpost.key_hash(workspace text, key text) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT encode(substring(sha256(convert_to(workspace || E'\x1f' || key, 'UTF8')) FOR 16), 'hex')::uuid
$$;

CREATE OR REPLACE FUNCTION fairpost.caller_key_hash(workspace text, key text) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN strpos(key, ':') = 0 THEN fairpost.key_hash(workspace, key)   -- the usual case, which does not need the pattern
                WHEN key IS NULL THEN NULL
                WHEN key !~ '^[0-9]+:[0-9]+:[0-9]+$' THEN fairpost.key_hash(workspace, key)
                WHEN fairpost.has_old_key(workspace, key) THEN fairpost.key_hash(workspace, key)
                ELSE fairpost.key_hash(workspace, E'\x1f' || key) END
$$;

-- Returns whether a caller used this key before namespaces were separated.
CREATE OR REPLACE FUNCTION fairpost.has_old_key(p_workspace text, p_key text) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    email CONSTANT bigint := (SELECT k.email_id FROM fairpost.idempotency_keys k WHERE k.key_hash = fairpost.key_hash(p_workspace, p_key));
BEGIN
    RETURN email IS NOT NULL AND (EXISTS (SELECT FROM fairpost.queue q WHERE q.id = email AND q.campaign_id IS NULL)
                                  OR EXISTS (SELECT FROM fairpost.emails e WHERE e.id = email AND e.campaign_id IS NULL));
END $$;

-- Returns the fingerprint of a request, for comparison with that of the first request that used the same key.
CREATE OR REPLACE FUNCTION fairpost.fingerprint(request jsonb) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ('x' || substr(encode(sha256(convert_to((jsonb_strip_nulls(request) - 'idempotency_key')::text, 'UTF8')), 'hex'), 1, 16))::bit(64)::bigint
$$;
