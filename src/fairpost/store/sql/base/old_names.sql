-- Names from the previous version. Open sessions still have them in index expressions, and transactions that enqueue during a schema upgrade look
-- them up.
CREATE OR REPLACE FUNCTION fairpost.fold(address text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT fairpost.normalize_address(address)
$$;

CREATE OR REPLACE FUNCTION fairpost.fold_user(name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT fairpost.normalize_user(name)
$$;
