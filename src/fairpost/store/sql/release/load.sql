-- Returns queued e-mails with their content, in the order requested. E-mails that no longer exist are omitted. The e-mails are read one at a time by
-- key, because the plan of a join depends on statistics and may read whole tables.
DROP FUNCTION IF EXISTS fairpost.load(bigint[]);   -- dropped because its result now has more columns
CREATE OR REPLACE FUNCTION fairpost.load(p_ids bigint[]) RETURNS TABLE (
    id bigint, workspace text, user_name text, stream text, class text, on_doubt text, attempts integer, attempts_max integer, due_at timestamptz, begun_at timestamptz,
    account_id bigint, sender jsonb, recipients jsonb, addresses text[], fields jsonb, evidence jsonb, follows bigint,
    content_id bigint, subject text, text_body text, html_body text, reply_to jsonb, headers jsonb, is_template boolean, has_attachments boolean,
    gap_min_s double precision, gap_max_s double precision, tier smallint, is_fair boolean,
    prospect_id bigint, campaign text, has_footer boolean
)
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    share CONSTANT smallint := (SELECT f.share FROM fairpost.fairness f);
BEGIN
    RETURN QUERY
    SELECT q.id, q.workspace, q.user_name, q.stream, q.class::text, q.on_doubt::text, q.attempts::integer, q.attempts_max::integer, q.due_at, q.begun_at,
           q.account_id, q.sender, q.recipients, q.addresses, q.fields, q.evidence, q.follows,
           q.content_id, c.subject, c.text_body, c.html_body, c.reply_to, c.headers, c.is_template,
           (SELECT true FROM fairpost.attachments a WHERE a.content_id = q.content_id LIMIT 1) IS NOT NULL,
           p.gap_min_s, p.gap_max_s, fairpost.tier_of(q.workspace, q.user_name), fairpost.is_fair(q.workspace, share),
           q.prospect_id, p.name, p.has_footer
    FROM unnest(p_ids) WITH ORDINALITY w(id, place)
    CROSS JOIN LATERAL (SELECT * FROM fairpost.queue q WHERE q.id = w.id LIMIT 1) q
    CROSS JOIN LATERAL (SELECT * FROM fairpost.contents c WHERE c.id = q.content_id LIMIT 1) c
    LEFT JOIN LATERAL (SELECT * FROM fairpost.campaigns p WHERE p.id = q.campaign_id LIMIT 1) p ON true
    ORDER BY w.place;
END $$;
