-- An id that grows with time: milliseconds above, a turning counter below. History is partitioned by it.
CREATE OR REPLACE FUNCTION fairpost.new_id() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT ((extract(epoch FROM clock_timestamp()) * 1000)::bigint << 20) | nextval('fairpost.id_serial')
$$;

-- The smallest id that a moment can have.
CREATE OR REPLACE FUNCTION fairpost.first_id_at(moment timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT (extract(epoch FROM moment) * 1000)::bigint << 20
$$;

-- The leaf an e-mail hangs on, known without looking anything up: two enqueuers never meet over it. Where the leaf hangs is decided when it is staged. What was
-- enqueued before users had a home was hashed without the first word, and keeps its own leaves until they are empty.
CREATE OR REPLACE FUNCTION fairpost.flow_of(
    route text, class fairpost.email_class, workspace text, domain text, user_name text, stream text
) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT encode(substring(sha256(convert_to(
        concat_ws(E'\x1f', 'home', route, class::text, workspace, domain, user_name, stream), 'UTF8')) FOR 16), 'hex')::uuid
$$;

CREATE OR REPLACE FUNCTION fairpost.key_hash(workspace text, key text) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT encode(substring(sha256(convert_to(workspace || E'\x1f' || key, 'UTF8')) FOR 16), 'hex')::uuid
$$;
