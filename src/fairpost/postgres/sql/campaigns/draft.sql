-- What is prepared before a launch.

-- A sequence of templates, whole. Returns new, changed or same; `missing NAMES` where there are no such templates, `launched NAME` where a campaign
-- sends it already and it would be another one: then nothing was changed.
CREATE OR REPLACE FUNCTION fairpost.put_sequence(p_workspace text, p_name text, p_templates text[], p_delays bigint[], p_now timestamptz DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    sequence fairpost.sequences;
    is_new boolean := false;
    missing text := (SELECT string_agg(DISTINCT w.name, ', ') FROM unnest(p_templates) w(name) WHERE NOT EXISTS (SELECT FROM fairpost.templates t WHERE t.workspace = p_workspace AND t.name = w.name));
    launched text;
BEGIN
    IF missing IS NOT NULL THEN
        RETURN 'missing ' || missing;
    END IF;
    INSERT INTO fairpost.sequences (workspace, name, created_at) VALUES (p_workspace, p_name, coalesce(p_now, clock_timestamp())) ON CONFLICT DO NOTHING;
    is_new := FOUND;
    SELECT * INTO sequence FROM fairpost.sequences s WHERE s.workspace = p_workspace AND s.name = p_name FOR UPDATE;
    IF (SELECT array_agg(t.name ORDER BY x.step) = p_templates AND array_agg(x.delay_s ORDER BY x.step) = p_delays
        FROM fairpost.sequence_steps x JOIN fairpost.templates t ON t.id = x.template_id WHERE x.sequence_id = sequence.id) THEN
        RETURN 'same';
    END IF;
    launched := (SELECT c.name FROM fairpost.campaigns c WHERE c.sequence_id = sequence.id AND c.launched_at IS NOT NULL LIMIT 1);
    IF launched IS NOT NULL THEN
        RETURN 'launched ' || launched;
    END IF;
    DELETE FROM fairpost.sequence_steps x WHERE x.sequence_id = sequence.id;
    INSERT INTO fairpost.sequence_steps (sequence_id, step, template_id, delay_s)
    SELECT sequence.id, w.step, t.id, w.delay_s
    FROM unnest(p_templates, p_delays) WITH ORDINALITY w(name, delay_s, step) JOIN fairpost.templates t ON t.workspace = p_workspace AND t.name = w.name;
    RETURN CASE WHEN is_new THEN 'new' ELSE 'changed' END;
END $$;

-- Launches a draft: its steps are what they are now, its mail may go out. `p_steps`: [{step, template, delay_s, subject, text, html, is_template}].
-- `p_zones`: timezones of recipients that have a stream of their own. Null: it was no draft any more, and nothing was changed.
CREATE OR REPLACE FUNCTION fairpost.launch_campaign(
    p_campaign bigint, p_steps jsonb, p_required text[], p_zones text[], p_skip_incomplete boolean, p_by text, p_now timestamptz DEFAULT NULL
) RETURNS fairpost.campaigns
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    t timestamptz := coalesce(p_now, clock_timestamp());
    c fairpost.campaigns := fairpost.move_campaign(p_campaign, '{draft}', 'running', NULL, p_by, p_now);
BEGIN
    IF c.id IS NULL THEN
        RETURN NULL;
    END IF;
    INSERT INTO fairpost.campaign_steps (campaign_id, step, template, delay_s, content_id)
    SELECT p_campaign, (s ->> 'step')::smallint, s ->> 'template', (s ->> 'delay_s')::bigint,
           fairpost.put_content(jsonb_strip_nulls(jsonb_build_object('subject', s ->> 'subject', 'text', s ->> 'text', 'html', s ->> 'html')), p_now)
    FROM jsonb_array_elements(p_steps) s;
    UPDATE fairpost.contents o SET is_template = true
    FROM fairpost.campaign_steps x JOIN jsonb_array_elements(p_steps) s ON (s ->> 'step')::smallint = x.step
    WHERE x.campaign_id = p_campaign AND o.id = x.content_id AND (s ->> 'is_template')::boolean;
    -- Shut, where there is a window, until somebody has worked out when it is open for them.
    UPDATE fairpost.schedules w SET known_until = '-infinity' WHERE w.workspace = c.workspace;
    INSERT INTO fairpost.campaign_streams (workspace, stream, campaign_id, timezone, flow, open)
    SELECT c.workspace, z.stream, p_campaign, z.zone, fairpost.flow_of(c.route, 'bulk', c.workspace, '', c.user_name, z.stream),
           (SELECT '{}'::tstzmultirange FROM fairpost.schedules w WHERE w.workspace = c.workspace AND w.days IS NOT NULL)
    FROM (SELECT zone, 'campaign:' || c.name || coalesce('@' || zone, '') AS stream FROM unnest(p_zones || NULL::text) zone) z;
    UPDATE fairpost.campaigns x SET launched_at = t, required = p_required, skips_incomplete = p_skip_incomplete WHERE x.id = p_campaign RETURNING * INTO c;
    RETURN c;
END $$;
