-- Names of the version before: sessions keep them in the expressions of indexes, and an enqueue that is under way while the schema is upgraded looks them up.
CREATE OR REPLACE FUNCTION fairpost.fold(address text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT fairpost.normalize_address(address)
$$;

CREATE OR REPLACE FUNCTION fairpost.fold_user(name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT fairpost.normalize_user(name)
$$;
