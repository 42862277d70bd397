-- The privileges of roles other than the schema's owner: fairpost_app (applications, over SQL) and fairpost_tenant (requests over HTTP). Nothing is
-- granted to PUBLIC. grants.sql grants the privileges described here, and `fairpost doctor` and `fairpost db migrate` check them.

-- Returns the functions that run with their owner's privileges. Each of these functions first checks which workspace owns the data (see
-- service/tenants.sql).
CREATE OR REPLACE FUNCTION fairpost.doors(p_role text) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'fairpost'::regnamespace AND p.proname = ANY (
        CASE p_role
        WHEN 'fairpost_app' THEN '{enqueue,enqueue_many,put_content,status,find,events_after,events_end,cancel,set_sender,public_id,private_id}'::text[]
        WHEN 'fairpost_tenant' THEN
            '{add_account,add_dkim_key,add_webhook_secret,address_hash,cancel,cancel_campaign,change_account,dkim_key_checked,enqueue,enqueue_many,events_after,events_cursor_at,events_end,hold,launch_campaign,materialize_calendar,list_emails,measured_since,own_outcomes,own_queue,
            pause_campaign,pause_prospect,pictures_of,plan_batch,private_id,public_id,put_content,receipts,release,remove_account,remove_dkim_key,remove_prospects,replan,resolve,resume_campaign,retry,search_emails,
            set_gates,set_sender,show_email,status,stop_prospect,submit,suppress,transport_of,transports_of,unsuppress,waiting_behind,waiting_by_sender}' END)
$$;

-- All other functions run with the caller's privileges. The service's queries use many of these functions, but applications use none.
CREATE OR REPLACE FUNCTION fairpost.helpers() RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'fairpost'::regnamespace AND NOT p.prosecdef AND p.prokind = 'f' AND p.prorettype <> 'trigger'::regtype AND p.proname NOT IN ('let_in', 'keep_out')
$$;

-- Returns each privilege as written in a GRANT. The role must exist.
CREATE OR REPLACE FUNCTION fairpost.tenant_rights() RETURNS TABLE (what text, is_granted boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT 'USAGE ON SCHEMA fairpost', has_schema_privilege('fairpost_tenant', 'fairpost', 'USAGE')
    UNION ALL
    SELECT format('EXECUTE ON FUNCTION %s', name), has_function_privilege('fairpost_tenant', name, 'EXECUTE')
    FROM (SELECT fairpost.doors('fairpost_tenant') UNION ALL SELECT fairpost.helpers()) f(name)
    UNION ALL
    SELECT format('%s ON fairpost.%I', asked, name), has_table_privilege('fairpost_tenant', format('fairpost.%I', name), asked)
    FROM (VALUES
        ('{SELECT}'::text[],
            '{queue,emails,attempts,labels,contents,leases,counters,blocks,campaigns,campaign_steps,campaign_streams,campaign_progress,campaign_snapshots,schedules,quotas,templates,sequences,
              sequence_steps,prospects,lists,list_members,opt_outs,suppressions,soft_bounces,returned,conversations,replies,senders,homes,sender_rules,activity,activity_days,submissions,events,workspaces,loans,domains,domain_health,mailboxes,audit,api_keys,
              pauses,engines,server,fairness,patience,offences,portal_overrides,suppression_hashes,webhooks,webhook_pending,webhook_deliveries,workspace_settings}'::text[]),
        ('{INSERT,UPDATE,DELETE}',
            '{templates,sequences,sequence_steps,campaigns,schedules,prospects,lists,list_members,opt_outs,suppressions,soft_bounces,senders,domains,domain_health,mailboxes,api_keys,portal_overrides,suppression_hashes,webhooks,workspace_settings}'),
        ('{UPDATE}', '{conversations}'),
        ('{INSERT}', '{audit,events}')) AS described (rights, tables), unnest(rights) asked, unnest(tables) name
    UNION ALL   -- also covers the operator's accounts, but not their servers or the owners of e-mails
    SELECT format('SELECT (%s) ON fairpost.%I', string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum), c.relname),
        bool_and(has_column_privilege('fairpost_tenant', c.oid, a.attnum, 'SELECT'))
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = 'fairpost'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
      AND (c.relname = 'accounts' AND a.attname <> 'transport' OR c.relname IN ('dkim_keys', 'webhook_secrets') AND a.attname <> 'secret' OR c.relname = 'charges' AND a.attname IN ('account_id', 'at', 'units')
        OR c.relname = 'mailbox_reads' AND a.attname IN ('account_id', 'looked_at', 'reason', 'params', 'failed_at'))
    GROUP BY c.oid, c.relname
$$;

-- Returns the same for fairpost_app, or for a login that has the role's privileges without being a member.
CREATE OR REPLACE FUNCTION fairpost.app_rights(p_role text DEFAULT 'fairpost_app') RETURNS TABLE (what text, is_granted boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT 'USAGE ON SCHEMA fairpost', has_schema_privilege(p_role, 'fairpost', 'USAGE')
    UNION ALL
    SELECT format('EXECUTE ON FUNCTION %s', door), has_function_privilege(p_role, door, 'EXECUTE') FROM fairpost.doors('fairpost_app') door
$$;
