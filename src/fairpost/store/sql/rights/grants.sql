-- Grants the privileges that described.sql describes. This file always runs last, because access to a function that does not yet exist cannot be
-- revoked.

DO $$
DECLARE
    named text;
BEGIN
    FOREACH named IN ARRAY '{fairpost_tenant,fairpost_app}'::text[] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = named) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', named);
            END IF;
            IF named = 'fairpost_tenant' AND NOT pg_has_role(named, 'MEMBER') THEN
                EXECUTE format('GRANT %I TO %I', named, current_user);
            END IF;
        EXCEPTION WHEN insufficient_privilege OR duplicate_object OR unique_violation THEN
            NULL;   -- either another database on this server is creating the role, or an administrator must create it (`fairpost db migrate` reports this)
        END;
    END LOOP;
END $$;

DROP FUNCTION IF EXISTS fairpost.doors();
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA fairpost FROM PUBLIC;

DO $$
DECLARE
    name text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'fairpost_tenant') THEN
        RETURN;
    END IF;
    REVOKE ALL ON ALL TABLES IN SCHEMA fairpost FROM fairpost_tenant;   -- privileges that are no longer described are revoked
    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fairpost FROM fairpost_tenant;
    FOR name IN SELECT r.what FROM fairpost.tenant_rights() r LOOP
        EXECUTE format('GRANT %s TO fairpost_tenant', name);
    END LOOP;
END $$;

-- Grants privileges to the application role, and to every login that acts for a workspace but could not be added to the role, because the current
-- login may not add members.
CREATE OR REPLACE FUNCTION fairpost.let_in(p_login text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    name text;
BEGIN
    IF p_login <> 'fairpost_app' AND EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'fairpost_app') THEN
        IF pg_has_role(p_login, 'fairpost_app', 'USAGE') THEN
            RETURN;
        END IF;
        BEGIN
            EXECUTE format('GRANT fairpost_app TO %I', p_login);
            RETURN;
        EXCEPTION WHEN insufficient_privilege THEN
            NULL;   -- otherwise, each privilege is granted separately
        END;
    END IF;
    FOR name IN SELECT r.what FROM fairpost.app_rights(p_login) r LOOP
        EXECUTE format('GRANT %s TO %I', name, p_login);
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION fairpost.keep_out(p_login text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    name text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = p_login) THEN
        RETURN;
    END IF;
    FOR name IN SELECT r.what FROM fairpost.app_rights(p_login) r LOOP
        EXECUTE format('REVOKE %s FROM %I', name, p_login);
    END LOOP;
    IF EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'fairpost_app') THEN
        EXECUTE format('REVOKE fairpost_app FROM %I', p_login);
    END IF;
END $$;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'fairpost_app') THEN
        REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fairpost FROM fairpost_app;
        PERFORM fairpost.let_in('fairpost_app');
    END IF;
    PERFORM fairpost.let_in(r.rolname) FROM (SELECT DISTINCT a.role_name FROM fairpost.applications a) a JOIN pg_roles r ON r.rolname = a.role_name;
END $$;
REVOKE EXECUTE ON FUNCTION fairpost.let_in(text), fairpost.keep_out(text) FROM PUBLIC;

-- Imports use temporary tables. By default, every role may create them.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'fairpost_tenant') AND NOT has_database_privilege('fairpost_tenant', current_database(), 'TEMPORARY') THEN
        EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO fairpost_tenant', current_database());
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    NULL;   -- the owner of the database decides which roles may create them
END $$;

-- In addition, a tenant's rows must not refer to another workspace's rows, which foreign keys alone cannot prevent.
ALTER POLICY own_workspace ON fairpost.campaigns WITH CHECK (
    workspace = (SELECT current_setting('fairpost.workspace', true)) AND NOT fairpost.leads_to_another(workspace, route)
    AND EXISTS (SELECT FROM fairpost.sequences s WHERE s.id = sequence_id));
ALTER POLICY with_its_sequence ON fairpost.sequence_steps WITH CHECK (
    EXISTS (SELECT FROM fairpost.sequences s WHERE s.id = sequence_id) AND EXISTS (SELECT FROM fairpost.templates t WHERE t.id = template_id));
ALTER POLICY with_its_list ON fairpost.list_members WITH CHECK (
    EXISTS (SELECT FROM fairpost.lists l WHERE l.id = list_id) AND EXISTS (SELECT FROM fairpost.prospects p WHERE p.id = prospect_id));
