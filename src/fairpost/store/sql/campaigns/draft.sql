-- Preparations before a launch.

-- Stores a complete sequence of templates. Returns `new`, `changed` or `same`. Changes nothing and returns `missing NAMES` if templates do not exist,
-- `taken` if a sequence of the other kind (one campaign's own, or shared) has the name, or `launched NAME` if a campaign already sends the sequence
-- and the call would change it.
DROP FUNCTION IF EXISTS fairpost.put_sequence(text, text, text[], bigint[], timestamptz, boolean);
CREATE OR REPLACE FUNCTION fairpost.put_sequence(
    p_workspace text, p_name text, p_templates text[], p_delays bigint[], p_own_subjects boolean[], p_now timestamptz DEFAULT NULL, p_own boolean DEFAULT false
) RETURNS text
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
    INSERT INTO fairpost.sequences (workspace, name, is_own, created_at) VALUES (p_workspace, p_name, p_own, coalesce(p_now, clock_timestamp())) ON CONFLICT DO NOTHING;
    is_new := FOUND;
    SELECT * INTO sequence FROM fairpost.sequences s WHERE s.workspace = p_workspace AND s.name = p_name FOR UPDATE;
    IF sequence.is_own <> p_own THEN
        RETURN 'taken';
    END IF;
    IF (SELECT array_agg(t.name ORDER BY x.step) = p_templates AND array_agg(x.delay_s ORDER BY x.step) = p_delays
            AND (array_agg(x.own_subject ORDER BY x.step))[2:] = p_own_subjects[2:]
        FROM fairpost.sequence_steps x JOIN fairpost.templates t ON t.id = x.template_id WHERE x.sequence_id = sequence.id) THEN
        RETURN 'same';
    END IF;
    launched := (SELECT c.name FROM fairpost.campaigns c WHERE c.sequence_id = sequence.id AND c.launched_at IS NOT NULL LIMIT 1);
    IF launched IS NOT NULL THEN
        RETURN 'launched ' || launched;
    END IF;
    DELETE FROM fairpost.sequence_steps x WHERE x.sequence_id = sequence.id;
    INSERT INTO fairpost.sequence_steps (sequence_id, step, template_id, delay_s, own_subject)
    SELECT sequence.id, w.step, t.id, w.delay_s, w.own_subject
    FROM unnest(p_templates, p_delays, p_own_subjects) WITH ORDINALITY w(name, delay_s, own_subject, step) JOIN fairpost.templates t ON t.workspace = p_workspace AND t.name = w.name;
    RETURN CASE WHEN is_new THEN 'new' ELSE 'changed' END;
END $$;

-- Launches a draft. From then on, its steps are fixed and its mail may be sent. `p_steps`: [{step, template, delay_s, own_subject, subject, text,
-- html, is_template, headers, reply_to}]. `p_zones`: the recipients' time zones that have their own streams. Returns null, changing nothing, if the
-- campaign is no longer a draft.
CREATE OR REPLACE FUNCTION fairpost.launch_campaign(
    p_campaign bigint, p_steps jsonb, p_required text[], p_zones text[], p_skip_incomplete boolean, p_by text, p_now timestamptz DEFAULT NULL
) RETURNS fairpost.campaigns
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    t timestamptz;
    c fairpost.campaigns;
BEGIN
    PERFORM fairpost.require_own_campaign(p_campaign);
    -- Prevents engines from computing a schedule in the meantime, even the workspace's first one.
    PERFORM pg_advisory_xact_lock(fairpost.rules_lock(x.workspace)) FROM fairpost.campaigns x WHERE x.id = p_campaign;
    t := coalesce(p_now, clock_timestamp());
    c := fairpost.move_campaign(p_campaign, '{draft}', 'running', NULL, NULL, p_by, p_now);
    IF c.id IS NULL THEN
        RETURN NULL;
    END IF;
    IF fairpost.tenant() IS NOT NULL AND NOT fairpost.may_be_from(c.workspace, c.route, NULL) THEN
        RAISE EXCEPTION 'this campaign uses accounts of another workspace' USING ERRCODE = 'FP004';
    END IF;
    WITH said AS MATERIALIZED (SELECT fairpost.new_id() AS id, s.* FROM jsonb_to_recordset(p_steps)
                  s(step smallint, template text, delay_s bigint, own_subject boolean, subject text, text text, html text, is_template boolean, headers jsonb, reply_to jsonb)
    ), kept AS (
        INSERT INTO fairpost.contents (id, subject, text_body, html_body, is_template, headers, reply_to, created_at)
        SELECT s.id, s.subject, s.text, s.html, s.is_template, s.headers, s.reply_to, t FROM said s
    )
    INSERT INTO fairpost.campaign_steps (campaign_id, step, template, delay_s, own_subject, content_id)
    SELECT p_campaign, s.step, s.template, s.delay_s, s.own_subject, s.id FROM said s;
    PERFORM fairpost.add_streams(c, p_zones || NULL::text);
    UPDATE fairpost.campaigns x SET launched_at = t, required = p_required, skips_incomplete = p_skip_incomplete WHERE x.id = p_campaign RETURNING * INTO c;
    RETURN c;
END $$;

-- Adds a stream for each of these time zones that does not have one yet. Null stands for the workspace's own time zone. If there is a sending window,
-- the stream stays closed until its open times are computed.
CREATE OR REPLACE FUNCTION fairpost.add_streams(c fairpost.campaigns, p_zones text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO fairpost.campaign_streams (workspace, stream, campaign_id, timezone, flow, open)
    SELECT c.workspace, z.stream, c.id, z.zone, fairpost.flow_of(c.route, 'bulk', c.workspace, '', c.user_name, z.stream),
           (SELECT '{}'::tstzmultirange FROM fairpost.schedules w WHERE w.workspace = c.workspace AND w.days IS NOT NULL)
    FROM (SELECT zone, 'campaign:' || c.name || coalesce('@' || zone, '') AS stream FROM unnest(p_zones) zone) z
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        UPDATE fairpost.schedules w SET known_until = '-infinity' WHERE w.workspace = c.workspace;
    END IF;
END $$;

-- Restarts planning from the first prospect, to include recipients who were added in the meantime. Returns false if the campaign is not running.
CREATE OR REPLACE FUNCTION fairpost.replan(p_campaign bigint, p_zones text[]) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    c fairpost.campaigns;
BEGIN
    PERFORM fairpost.require_own_campaign(p_campaign);
    PERFORM pg_advisory_xact_lock(fairpost.rules_lock(x.workspace)) FROM fairpost.campaigns x WHERE x.id = p_campaign;
    UPDATE fairpost.campaigns x SET planned_through = 0, planned_at = NULL, prospects = 0, left_out = 0
    WHERE x.id = p_campaign AND x.state IN ('scheduled', 'running') RETURNING * INTO c;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM fairpost.add_streams(c, p_zones);
    RETURN true;
END $$;
