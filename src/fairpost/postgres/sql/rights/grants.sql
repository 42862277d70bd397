-- Grants what described.sql describes. Laid last, each time: a function that is not there yet cannot be shut.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'fairpost_tenant') THEN
        CREATE ROLE fairpost_tenant NOLOGIN;
    END IF;
    IF NOT pg_has_role('fairpost_tenant', 'MEMBER') THEN
        EXECUTE format('GRANT fairpost_tenant TO %I', current_user);
    END IF;
EXCEPTION WHEN insufficient_privilege OR duplicate_object OR unique_violation THEN
    NULL;   -- another database of this server has it just now; or an administrator must do it, and `fairpost db migrate` says so
END $$;

DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT * FROM fairpost.doors() LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', name);
    END LOOP;
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'fairpost_tenant') THEN
        RETURN;
    END IF;
    REVOKE ALL ON ALL TABLES IN SCHEMA fairpost FROM fairpost_tenant;   -- what is not described any more is over
    FOR name IN SELECT r.what FROM fairpost.tenant_rights() r LOOP
        EXECUTE format('GRANT %s TO fairpost_tenant', name);
    END LOOP;
END $$;

-- A list that comes in goes through tables of its own. Usually everybody may have those.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'fairpost_tenant') AND NOT has_database_privilege('fairpost_tenant', current_database(), 'TEMPORARY') THEN
        EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO fairpost_tenant', current_database());
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    NULL;   -- who may, is for the owner of the database to say
END $$;

-- What is written must not point to what is another's, either: a foreign key does not ask whose it is.
ALTER POLICY own_workspace ON fairpost.campaigns WITH CHECK (
    workspace = (SELECT current_setting('fairpost.workspace', true)) AND NOT fairpost.leads_to_another(workspace, route)
    AND EXISTS (SELECT FROM fairpost.sequences s WHERE s.id = sequence_id));
ALTER POLICY with_its_sequence ON fairpost.sequence_steps WITH CHECK (
    EXISTS (SELECT FROM fairpost.sequences s WHERE s.id = sequence_id) AND EXISTS (SELECT FROM fairpost.templates t WHERE t.id = template_id));
ALTER POLICY with_its_list ON fairpost.list_members WITH CHECK (
    EXISTS (SELECT FROM fairpost.lists l WHERE l.id = list_id) AND EXISTS (SELECT FROM fairpost.prospects p WHERE p.id = prospect_id));
