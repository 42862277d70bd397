-- Sealed secrets (`v1:<key id>:<text>`) of accounts (stored in their transport), DKIM keys and webhooks. The database does not contain the vault's
-- keys, only the ids of those in use.

-- Returns all secrets. `owner` is the object that a secret is bound to.
CREATE OR REPLACE FUNCTION fairpost.sealed_secrets() RETURNS TABLE (owner text, name text, sealed text)
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp AS $$
    SELECT 'account ' || a.id, a.name, a.transport ->> 'secret' FROM fairpost.accounts a WHERE a.transport ? 'secret'
    UNION ALL
    SELECT 'dkim ' || k.id, k.selector || '._domainkey.' || k.domain, k.secret FROM fairpost.dkim_keys k WHERE k.secret IS NOT NULL
    UNION ALL
    SELECT 'webhook ' || s.id, w.url, s.secret FROM fairpost.webhook_secrets s JOIN fairpost.webhooks w ON w.id = s.webhook_id
$$;

-- Returns the ids of the keys used by all secrets, or by all secrets except one account's.
CREATE OR REPLACE FUNCTION fairpost.keys_in_use(p_except bigint DEFAULT NULL) RETURNS text[]
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp AS $$
    SELECT ARRAY(SELECT DISTINCT split_part(s.sealed, ':', 2) FROM fairpost.sealed_secrets() s
                 WHERE s.owner IS DISTINCT FROM 'account ' || p_except ORDER BY 1)
$$;

-- Ensures that the keys in use remain `p_keys` until the commit, so that a secret sealed with one of them may be written. Null means that no
-- secret is written.
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

-- Replaces the secrets with those in `p_after` ({"<owner>": sealed, or null to remove it}) if the current secrets are exactly those in `p_before`.
-- Otherwise changes nothing and returns false. A DKIM key that loses its secret is removed, and an endpoint that loses its secret is disabled.
CREATE OR REPLACE FUNCTION fairpost.replace_secrets(p_before jsonb, p_after jsonb) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
BEGIN
    PERFORM fairpost.lock_secrets();
    IF p_before <> (SELECT coalesce(jsonb_object_agg(s.owner, s.sealed), '{}') FROM fairpost.sealed_secrets() s) THEN
        RETURN false;
    END IF;
    UPDATE fairpost.accounts a SET transport = (a.transport - 'secret') || jsonb_strip_nulls(jsonb_build_object('secret', n.value))
    FROM jsonb_each(p_after) n WHERE n.key = 'account ' || a.id;
    UPDATE fairpost.dkim_keys k SET secret = n.value FROM jsonb_each_text(p_after) n WHERE n.key = 'dkim ' || k.id AND n.value IS NOT NULL;
    DELETE FROM fairpost.dkim_keys k USING jsonb_each_text(p_after) n WHERE n.key = 'dkim ' || k.id AND n.value IS NULL;
    UPDATE fairpost.webhook_secrets s SET secret = n.value FROM jsonb_each_text(p_after) n WHERE n.key = 'webhook ' || s.id AND n.value IS NOT NULL;
    DELETE FROM fairpost.webhook_secrets s USING jsonb_each_text(p_after) n WHERE n.key = 'webhook ' || s.id AND n.value IS NULL;
    RETURN true;
END $$;

-- Lets only one transaction at a time write secrets; others wait until it commits.
CREATE OR REPLACE FUNCTION fairpost.lock_secrets() RETURNS void
LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(7381526668557575540)
$$;
