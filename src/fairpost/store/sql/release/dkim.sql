-- Creates and retires the keys that sign a domain's mail, and records whether they are published in DNS. A workspace can only change its own keys.

-- `p_keys` are the vault keys that were in use when the secret was sealed.
CREATE OR REPLACE FUNCTION fairpost.add_dkim_key(
    p_id bigint, p_workspace text, p_domain text, p_selector text, p_algorithm text, p_public text, p_secret text, p_keys text[], p_now timestamptz DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    PERFORM fairpost.expect_keys(p_keys);
    INSERT INTO fairpost.dkim_keys (id, workspace, domain, selector, algorithm, public, secret, created_at) OVERRIDING SYSTEM VALUE
    VALUES (p_id, p_workspace, p_domain, p_selector, p_algorithm, p_public, p_secret, coalesce(p_now, clock_timestamp()));
END $$;

-- Records whether a key's DNS record exists. If it does, the key is used for signing from now on, and earlier keys of the same kind are retired
-- together with their secrets.
CREATE OR REPLACE FUNCTION fairpost.dkim_key_checked(p_workspace text, p_id bigint, p_is_there boolean, p_now timestamptz DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    now_ CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    seen fairpost.dkim_keys;
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    PERFORM fairpost.lock_secrets();   -- so that a rotation of secrets sees the current row
    UPDATE fairpost.dkim_keys k SET checked_at = now_, active_at = CASE WHEN p_is_there THEN coalesce(k.active_at, now_) ELSE k.active_at END
    WHERE k.id = p_id AND k.workspace = p_workspace RETURNING * INTO seen;
    IF p_is_there AND seen.active_at = now_ THEN
        UPDATE fairpost.dkim_keys k SET retired_at = now_, secret = NULL
        WHERE k.workspace = seen.workspace AND k.domain = seen.domain AND k.algorithm = seen.algorithm AND k.id <> seen.id AND k.active_at IS NOT NULL AND k.retired_at IS NULL;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION fairpost.remove_dkim_key(p_workspace text, p_domain text, p_selector text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    PERFORM fairpost.lock_secrets();
    DELETE FROM fairpost.dkim_keys k WHERE k.workspace = p_workspace AND k.domain = p_domain AND k.selector = p_selector;
    RETURN FOUND;
END $$;

CREATE OR REPLACE FUNCTION fairpost.next_dkim_key_id() RETURNS bigint
LANGUAGE sql SET search_path = fairpost, pg_catalog, pg_temp AS $$
    SELECT nextval(pg_get_serial_sequence('fairpost.dkim_keys', 'id'))
$$;
