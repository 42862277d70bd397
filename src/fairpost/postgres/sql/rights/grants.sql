-- What a request may do at all, whosever it is. Laid last, each time: a function that is not there yet cannot be shut.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'fairpost_tenant') THEN
        CREATE ROLE fairpost_tenant NOLOGIN;
        EXECUTE format('GRANT fairpost_tenant TO %I', current_user);
    END IF;
EXCEPTION WHEN insufficient_privilege OR duplicate_object OR unique_violation THEN
    NULL;   -- another database of this server has it just now; or an operator must make it, and `fairpost api` says so
END $$;

DO $$
DECLARE
    door regprocedure;
    -- Functions that act with their owner's rights, and are not for everybody who may use the schema.
    doors CONSTANT text[] := '{add_account,address_hash,cancel_campaign,change_account,hold,launch_campaign,lay_calendar,list_emails,measured_since,own_outcomes,own_queue,pause_campaign,pause_prospect,pictures_of,plan_anew,plan_batch,
        receipts,release,remove_account,remove_prospects,resolve,resume_campaign,search_emails,set_gates,set_sender,show_email,stop_prospect,submit,transport_of,transports_of,waiting_behind,waiting_by_sender}';
BEGIN
    FOR door IN SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'fairpost'::regnamespace AND p.proname = ANY (doors) LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', door);
    END LOOP;
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'fairpost_tenant') THEN
        RETURN;
    END IF;
    FOR door IN SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'fairpost'::regnamespace AND p.proname = ANY (doors) LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO fairpost_tenant', door);
    END LOOP;
    REVOKE ALL ON ALL TABLES IN SCHEMA fairpost FROM fairpost_tenant;   -- what is not said below any more is over
    GRANT USAGE ON SCHEMA fairpost TO fairpost_tenant;
    GRANT SELECT ON fairpost.queue, fairpost.emails, fairpost.attempts, fairpost.contents, fairpost.leases, fairpost.tallies, fairpost.blocks,
        fairpost.campaigns, fairpost.campaign_steps, fairpost.campaign_streams, fairpost.campaign_course, fairpost.campaign_standings, fairpost.schedules, fairpost.quotas, fairpost.templates, fairpost.sequences,
        fairpost.sequence_steps, fairpost.prospects, fairpost.lists, fairpost.list_members, fairpost.stops, fairpost.suppressions, fairpost.soft_bounces,
        fairpost.senders, fairpost.homes, fairpost.rules, fairpost.activity, fairpost.activity_days, fairpost.submissions, fairpost.events, fairpost.workspaces, fairpost.domains,
        fairpost.audit, fairpost.api_keys, fairpost.pauses, fairpost.engines, fairpost.fairness, fairpost.patience, fairpost.offences
        TO fairpost_tenant;
    GRANT SELECT (account_id, at, units) ON fairpost.charges TO fairpost_tenant;   -- of the operator's accounts too, but not whose e-mail it was
    GRANT INSERT, UPDATE, DELETE ON fairpost.templates, fairpost.sequences, fairpost.sequence_steps, fairpost.campaigns, fairpost.schedules, fairpost.prospects,
        fairpost.lists, fairpost.list_members, fairpost.stops, fairpost.suppressions, fairpost.soft_bounces, fairpost.senders, fairpost.domains, fairpost.api_keys
        TO fairpost_tenant;
    REVOKE SELECT ON fairpost.accounts FROM fairpost_tenant;
    EXECUTE (SELECT format('GRANT SELECT (%s) ON fairpost.accounts TO fairpost_tenant', string_agg(quote_ident(a.attname), ', '))
             FROM pg_attribute a WHERE a.attrelid = 'fairpost.accounts'::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'transport');
    GRANT SELECT, INSERT, UPDATE, DELETE ON fairpost.portal_overrides, fairpost.suppression_hashes TO fairpost_tenant;
    GRANT INSERT ON fairpost.audit, fairpost.events TO fairpost_tenant;
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
