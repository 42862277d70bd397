-- Sealed secrets of accounts, `v1:<key id>:<text>` in their transport. The database knows no key, only which ones are in use.

-- The ids of the keys in use, by all accounts or by all but one.
CREATE OR REPLACE FUNCTION fairpost.keys_in_use(p_except bigint DEFAULT NULL) RETURNS text[]
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp AS $$
    SELECT ARRAY(SELECT DISTINCT split_part(a.transport ->> 'secret', ':', 2) FROM fairpost.accounts a
                 WHERE a.transport ? 'secret' AND a.id IS DISTINCT FROM p_except ORDER BY 1)
$$;

-- Whoever writes a secret has chosen its key by the keys in use; this makes sure that they still are, until he commits.
-- Null: he writes none.
CREATE OR REPLACE FUNCTION fairpost.expect_keys(p_keys text[]) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
BEGIN
    IF p_keys IS NULL THEN
        RETURN;
    END IF;
    PERFORM fairpost.lock_secrets();
    IF fairpost.keys_in_use() <> p_keys THEN
        RAISE EXCEPTION 'the keys in use have changed' USING ERRCODE = 'FP003', HINT = 'Nothing was written.';
    END IF;
END $$;

-- Seals anew what is in `p_after` ({"<account id>": sealed, or null to remove it}), if all secrets are still those of
-- `p_before`, which has every one of them; else changes nothing and returns false.
CREATE OR REPLACE FUNCTION fairpost.replace_secrets(p_before jsonb, p_after jsonb) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
BEGIN
    PERFORM fairpost.lock_secrets();
    IF p_before <> (SELECT coalesce(jsonb_object_agg(a.id, a.transport -> 'secret'), '{}') FROM fairpost.accounts a WHERE a.transport ? 'secret') THEN
        RETURN false;
    END IF;
    UPDATE fairpost.accounts a SET transport = (a.transport - 'secret') || jsonb_strip_nulls(jsonb_build_object('secret', n.value))
    FROM jsonb_each(p_after) n WHERE a.id = n.key::bigint;
    RETURN true;
END $$;

-- One at a time writes secrets, until it commits.
CREATE OR REPLACE FUNCTION fairpost.lock_secrets() RETURNS void
LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(7381526668557575540)
$$;
