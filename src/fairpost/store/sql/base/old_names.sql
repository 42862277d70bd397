-- Names from the previous version: sessions keep them in index expressions, and an enqueue that runs while the schema is being upgraded looks them
-- up.
CREATE OR REPLACE FUNCTION fairpost.fold(address text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT fairpost.normalize_address(address)
$$;

CREATE OR REPLACE FUNCTION fairpost.fold_user(name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT fairpost.normalize_user(name)
$$;
