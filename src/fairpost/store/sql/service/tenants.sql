-- The second line of defence. A request runs as the role fairpost_tenant and names its workspace in its transaction. The tables' row policies then
-- show the request only that workspace's rows. Functions that run with their owner's privileges bypass these policies, so each of them first calls a
-- check in this file.

-- Returns the workspace that this transaction may act for, or null if it is not a tenant's request and may act for any workspace. A request that names no
-- workspace may act for none.
CREATE OR REPLACE FUNCTION fairpost.tenant() RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN current_setting('role') = 'fairpost_tenant' THEN coalesce(current_setting('fairpost.workspace', true), '') END
$$;

-- Returns the workspaces that an application's login may act for, or null for all of them. The result depends on the session's login, which SET ROLE does
-- not change. Called only by functions that run with their owner's privileges and in which current_user is therefore the owner.
CREATE OR REPLACE FUNCTION fairpost.spoken_for() RETURNS text[]
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN NOT pg_has_role(session_user, current_user, 'MEMBER') THEN fairpost.workspaces_of(session_user) END
$$;

CREATE OR REPLACE FUNCTION fairpost.workspaces_of(p_login name) RETURNS text[]
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN a.names IS NULL THEN '{default}' WHEN '*' <> ALL (a.names) THEN a.names END
    FROM (SELECT array_agg(DISTINCT a.workspace) AS names FROM fairpost.applications a
          WHERE pg_has_role(p_login, to_regrole(quote_ident(a.role_name)), 'MEMBER')) a
$$;

-- Returns the session's default workspace. If the session's login acts for only one workspace, this is the default. Otherwise, it is `default`.
CREATE OR REPLACE FUNCTION fairpost.own_workspace(spoken_for text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN cardinality(spoken_for) = 1 THEN spoken_for[1] ELSE 'default' END
$$;

-- Returns whether this session is limited to certain workspaces.
CREATE OR REPLACE FUNCTION fairpost.is_bound() RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT fairpost.tenant() IS NOT NULL OR fairpost.spoken_for() IS NOT NULL
$$;

-- Returns a reason's parameters without those about another workspace's account. model/outside.py does the same for HTTP.
CREATE OR REPLACE FUNCTION fairpost.params_known_to(p_workspace text, p_params jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN starts_with(p_params ->> 'account', p_workspace || '/') IS NOT false THEN p_params ELSE p_params - '{account,why,server,by}'::text[] END
$$;

CREATE OR REPLACE FUNCTION fairpost.require_own(p_workspace text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF fairpost.tenant() IS NOT NULL AND p_workspace IS DISTINCT FROM fairpost.tenant()
        OR fairpost.spoken_for() IS NOT NULL AND coalesce(p_workspace <> ALL (fairpost.spoken_for()), true) THEN
        RAISE EXCEPTION 'this is not in your workspace' USING ERRCODE = 'FP004';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION fairpost.require_own_campaign(p_campaign bigint) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF fairpost.is_bound() THEN
        PERFORM fairpost.require_own((SELECT c.workspace FROM fairpost.campaigns c WHERE c.id = p_campaign));
    END IF;
END $$;

CREATE OR REPLACE FUNCTION fairpost.require_own_prospects(p_prospects bigint[]) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF fairpost.is_bound() THEN
        PERFORM fairpost.require_own((SELECT p.workspace FROM fairpost.prospects p WHERE p.id = w.id)) FROM unnest(p_prospects) w(id);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION fairpost.require_own_email(p_id bigint) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF fairpost.is_bound() THEN
        PERFORM fairpost.require_own(coalesce((SELECT q.workspace FROM fairpost.queue q WHERE q.id = p_id), (SELECT e.workspace FROM fairpost.emails e WHERE e.id = p_id)));
    END IF;
END $$;

-- Returns an account's server and its sealed secret. A tenant's request gets this data only for its own workspace's accounts.
CREATE OR REPLACE FUNCTION fairpost.transport_of(p_account bigint) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
    SELECT CASE WHEN coalesce(a.workspace = fairpost.tenant(), fairpost.tenant() IS NULL) THEN a.transport ELSE '{}' END FROM fairpost.accounts a WHERE a.id = p_account
$$;

-- Returns the same for many accounts in one call, because separate calls for thousands of accounts would take too long.
CREATE OR REPLACE FUNCTION fairpost.transports_of(p_accounts bigint[]) RETURNS TABLE (account_id bigint, transport jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
    SELECT a.id, CASE WHEN coalesce(a.workspace = t.own, t.own IS NULL) THEN a.transport ELSE '{}' END
    FROM fairpost.accounts a, (SELECT fairpost.tenant() AS own OFFSET 0) t WHERE a.id = ANY (p_accounts)
$$;

CREATE OR REPLACE FUNCTION fairpost.require_own_account(p_name text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM fairpost.require_own(CASE WHEN strpos(p_name, '/') > 0 THEN split_part(p_name, '/', 1) END);
END $$;

-- Returns whether a workspace's mail on this route would be sent through an account that is neither its own nor in one of the operator's pools.
CREATE OR REPLACE FUNCTION fairpost.leads_to_another(p_workspace text, p_route text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (strpos(p_route, '/') > 0 OR left(p_route, 1) = '@') AND NOT starts_with(ltrim(p_route, '@'), p_workspace || '/')
$$;
