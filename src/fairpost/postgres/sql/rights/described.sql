-- What a request may do at all, whosever it is. grants.sql grants it; `fairpost doctor` and `fairpost db migrate` look whether it is so.

-- Functions that act with their owner's rights, and are not for everybody who may use the schema.
CREATE OR REPLACE FUNCTION fairpost.doors() RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'fairpost'::regnamespace AND p.proname = ANY (
        '{add_account,address_hash,cancel_campaign,change_account,hold,launch_campaign,lay_calendar,list_emails,measured_since,own_outcomes,own_queue,pause_campaign,pause_prospect,pictures_of,plan_anew,plan_batch,
        receipts,release,remove_account,remove_prospects,resolve,resume_campaign,search_emails,set_gates,set_sender,show_email,stop_prospect,submit,transport_of,transports_of,waiting_behind,waiting_by_sender}')
$$;

-- Each right as it stands in a GRANT. The role must be there.
CREATE OR REPLACE FUNCTION fairpost.tenant_rights() RETURNS TABLE (what text, is_granted boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT 'USAGE ON SCHEMA fairpost', has_schema_privilege('fairpost_tenant', 'fairpost', 'USAGE')
    UNION ALL
    SELECT format('EXECUTE ON FUNCTION %s', door), has_function_privilege('fairpost_tenant', door, 'EXECUTE') FROM fairpost.doors() door
    UNION ALL
    SELECT format('%s ON fairpost.%I', asked, name), has_table_privilege('fairpost_tenant', format('fairpost.%I', name), asked)
    FROM (VALUES
        ('{SELECT}'::text[],
            '{queue,emails,attempts,contents,leases,tallies,blocks,campaigns,campaign_steps,campaign_streams,campaign_course,campaign_standings,schedules,quotas,templates,sequences,
              sequence_steps,prospects,lists,list_members,stops,suppressions,soft_bounces,senders,homes,rules,activity,activity_days,submissions,events,workspaces,domains,audit,api_keys,
              pauses,engines,server,fairness,patience,offences,portal_overrides,suppression_hashes}'::text[]),
        ('{INSERT,UPDATE,DELETE}',
            '{templates,sequences,sequence_steps,campaigns,schedules,prospects,lists,list_members,stops,suppressions,soft_bounces,senders,domains,api_keys,portal_overrides,suppression_hashes}'),
        ('{INSERT}', '{audit,events}')) AS described (rights, tables), unnest(rights) asked, unnest(tables) name
    UNION ALL   -- of the operator's accounts too, but neither where they send nor whose e-mail it was
    SELECT format('SELECT (%s) ON fairpost.%I', string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum), c.relname),
        bool_and(has_column_privilege('fairpost_tenant', c.oid, a.attnum, 'SELECT'))
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = 'fairpost'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
      AND (c.relname = 'accounts' AND a.attname <> 'transport' OR c.relname = 'charges' AND a.attname IN ('account_id', 'at', 'units'))
    GROUP BY c.oid, c.relname
$$;
