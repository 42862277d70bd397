-- For each prospect on a campaign's lists, creates a row and a key for each step. Works in batches. Each batch is committed together with a record of
-- the progress. Interrupted, repeated or concurrent runs complete the planning without duplicates. Nested loops are disabled, because the planner
-- cannot estimate the length of the lists, and nested loops would take seconds per batch. `prospects` is the number of prospects examined. `left_out`
-- is the number of prospects that lack a field required by the templates.
CREATE OR REPLACE FUNCTION fairpost.plan_batch(
    p_campaign bigint, p_max integer, p_now timestamptz DEFAULT NULL,
    OUT done boolean, OUT prospects integer, OUT scheduled integer, OUT skipped integer, OUT left_out bigint[]
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET jit = off SET enable_nestloop = off AS $$
DECLARE
    c fairpost.campaigns;
    t timestamptz;
    batch bigint[];
    ids bigint[];
    steps CONSTANT integer := (SELECT count(*) FROM fairpost.campaign_steps s WHERE s.campaign_id = p_campaign);
BEGIN
    PERFORM fairpost.require_own_campaign(p_campaign);
    SELECT * INTO c FROM fairpost.campaigns x WHERE x.id = p_campaign FOR NO KEY UPDATE;
    t := coalesce(p_now, clock_timestamp());
    prospects := 0;
    scheduled := 0;
    skipped := 0;
    left_out := '{}';
    done := c.planned_at IS NOT NULL OR c.state NOT IN ('scheduled', 'running');
    IF done THEN
        RETURN;
    END IF;
    batch := ARRAY(SELECT DISTINCT m.prospect_id FROM fairpost.lists l CROSS JOIN LATERAL (
                       SELECT m.prospect_id FROM fairpost.list_members m WHERE m.list_id = l.id AND m.prospect_id > c.planned_through
                       ORDER BY m.prospect_id LIMIT p_max) m
                   WHERE l.id = ANY (c.lists) AND l.workspace = c.workspace ORDER BY 1 LIMIT p_max);
    prospects := cardinality(batch);
    -- Either a prospect's pause cannot end before this transaction does, or this transaction sees that the pause has ended.
    PERFORM pg_advisory_xact_lock_shared(fairpost.parking_lock(), place) FROM generate_series(0, 63) place;
    -- If an e-mail was cancelled along with another campaign before its sending started, this campaign can reuse its key.
    IF EXISTS (SELECT FROM fairpost.campaigns o WHERE o.sequence_id = c.sequence_id AND o.id <> c.id AND o.state = 'cancelled' AND o.launched_at IS NOT NULL) THEN
        PERFORM fairpost.free_keys(c, batch);
    END IF;
    IF c.required <> '{}' THEN
        left_out := ARRAY(SELECT p.id FROM fairpost.prospects p WHERE p.id = ANY (batch) AND fairpost.lacks(p.fields, c.required) ORDER BY p.id);
    END IF;

    WITH draft AS MATERIALIZED (
        SELECT p.id AS prospect_id, p.address, p.fields, p.is_paused, s.step, s.content_id, fairpost.new_id() AS id,
               coalesce(mine.stream, main.stream) AS stream, coalesce(mine.flow, main.flow) AS flow,
               p.id || ':' || c.sequence_id || ':' || s.step AS key
        FROM fairpost.prospects p
        CROSS JOIN fairpost.campaign_steps s
        JOIN fairpost.campaign_streams main ON main.campaign_id = c.id AND main.timezone IS NULL
        LEFT JOIN fairpost.campaign_streams mine ON mine.campaign_id = c.id AND mine.timezone = p.timezone
        WHERE p.id = ANY (batch) AND p.workspace = c.workspace AND s.campaign_id = c.id AND (left_out = '{}' OR p.id <> ALL (left_out))
        AND NOT EXISTS (SELECT FROM fairpost.opt_outs x WHERE x.prospect_id = p.id AND x.campaign_id IN (c.id, 0))
    ), begun AS (
        -- Inserted in key order, so that two concurrent runs wait for each other instead of deadlocking.
        INSERT INTO fairpost.idempotency_keys AS k (key_hash, email_id)
        SELECT fairpost.key_hash(c.workspace, r.key), r.id FROM draft r WHERE r.step = 1 ORDER BY 1
        ON CONFLICT DO NOTHING RETURNING k.email_id
    ), followed AS (
        INSERT INTO fairpost.idempotency_keys AS k (key_hash, email_id)
        SELECT fairpost.key_hash(c.workspace, r.key), r.id FROM draft r
        WHERE r.step > 1 AND r.prospect_id IN (SELECT f.prospect_id FROM draft f WHERE f.step = 1 AND f.id IN (SELECT b.email_id FROM begun b)) ORDER BY 1
        ON CONFLICT DO NOTHING RETURNING k.email_id
    ), new AS MATERIALIZED (
        SELECT r.*, lag(r.id) OVER (PARTITION BY r.prospect_id ORDER BY r.step) AS follows,
               CASE WHEN r.step = 1 THEN greatest(c.starts_at, t) END AS due_at
        FROM draft r WHERE r.id IN (SELECT b.email_id FROM begun b) OR steps > 1 AND r.id IN (SELECT f.email_id FROM followed f)
    ), queued AS (
        INSERT INTO fairpost.queue (id, flow, due_at, parked_due, attempts_max, created_at, content_id, class, on_doubt, route, workspace, domain, user_name, stream,
            recipients, addresses, fields, idempotency_key, follows, campaign_id, prospect_id, step)
        SELECT n.id, n.flow, CASE WHEN n.is_paused THEN 'infinity' ELSE coalesce(n.due_at, 'infinity') END, CASE WHEN n.is_paused THEN n.due_at END,
            4, t, n.content_id, 'bulk', 'hold', c.route, c.workspace, '', c.user_name, n.stream,
            jsonb_build_array(jsonb_build_object('kind', 'to', 'address', n.address)), ARRAY[n.address], nullif(n.fields, '{}'), n.key, n.follows, c.id, n.prospect_id, n.step
        FROM new n
    ), noted AS (
        INSERT INTO fairpost.arrivals (route, class, workspace, domain, user_name, stream, flow, n, fresh, due_at, id)
        SELECT c.route, 'bulk', c.workspace, '', c.user_name, n.stream, n.flow, count(*), count(*) FILTER (WHERE n.is_due), CASE WHEN n.is_due THEN min(n.due_at) ELSE 'infinity' END, min(n.id)
        FROM (SELECT n.*, n.due_at IS NOT NULL AND NOT n.is_paused AS is_due FROM new n) n GROUP BY n.stream, n.flow, n.is_due
    )
    SELECT count(*), array_agg(n.id) FILTER (WHERE c.labels IS NOT NULL) INTO scheduled, ids FROM new n;
    IF ids IS NOT NULL THEN
        PERFORM fairpost.add_labels(ids, array_fill(c.workspace, ARRAY[cardinality(ids)]), array_fill(c.labels, ARRAY[cardinality(ids)]));
    END IF;
    skipped := (prospects - cardinality(left_out)) * steps - scheduled;
    IF skipped > 0 THEN
        INSERT INTO fairpost.events (at, kind, workspace, subject, detail)
        VALUES (t, 'duplicates_skipped', c.workspace, c.name, jsonb_build_object('emails', skipped, 'from_prospect', batch[1], 'to_prospect', batch[prospects]));
    END IF;
    done := prospects < p_max;
    UPDATE fairpost.campaigns x SET
        planned_through = coalesce(batch[cardinality(batch)], x.planned_through), planned_at = CASE WHEN plan_batch.done THEN t END,
        scheduled = x.scheduled + plan_batch.scheduled, prospects = x.prospects + plan_batch.prospects, left_out = x.left_out + cardinality(plan_batch.left_out)
    WHERE x.id = p_campaign;
END $$;

-- Frees the keys of prospects whose e-mails were cancelled along with the campaign, if sending never started for any of the sequence's e-mails to
-- them.
CREATE OR REPLACE FUNCTION fairpost.free_keys(c fairpost.campaigns, batch bigint[]) RETURNS void
LANGUAGE sql SET enable_nestloop = on AS $$
    WITH unbegun AS MATERIALIZED (
        SELECT w.id AS prospect_id, e.campaign_id FROM unnest(batch) w(id)
        JOIN fairpost.idempotency_keys k ON k.key_hash = fairpost.key_hash(c.workspace, w.id || ':' || c.sequence_id || ':1')
        JOIN fairpost.emails e ON e.id = k.email_id AND e.state = 'cancelled' AND e.attempts = 0
        JOIN fairpost.campaigns o ON o.id = e.campaign_id AND o.state = 'cancelled' AND o.id <> c.id
        WHERE NOT EXISTS (SELECT FROM fairpost.opt_outs s WHERE s.prospect_id = w.id AND s.campaign_id IN (c.id, 0))
    ), freed AS (
        DELETE FROM fairpost.idempotency_keys k USING unbegun u CROSS JOIN fairpost.campaign_steps s
        WHERE s.campaign_id = c.id AND k.key_hash = fairpost.key_hash(c.workspace, u.prospect_id || ':' || c.sequence_id || ':' || s.step)
    )
    UPDATE fairpost.emails e SET idempotency_key = NULL FROM unbegun u WHERE e.prospect_id = u.prospect_id AND e.campaign_id = u.campaign_id
$$;

-- Returns whether any of these fields is absent or blank. The usual case (none of them is) is checked first, because that check is fast.
CREATE OR REPLACE FUNCTION fairpost.lacks(fields jsonb, required text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN fields ?& required AND NOT fields @? '$.* ? (@ == null || @ like_regex "^\\s*$")' THEN false ELSE fairpost.lacks_one(fields, required) END
$$;

CREATE OR REPLACE FUNCTION fairpost.lacks_one(fields jsonb, required text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT EXISTS (SELECT FROM unnest(required) r WHERE btrim(coalesce(fields #>> string_to_array(r, '.'), ''), E' \t\r\n\u00a0') = '')
$$;
