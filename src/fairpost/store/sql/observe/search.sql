-- Finds e-mails by their properties. A search uses the index for one of the properties, which returns e-mails newest first, and checks each result
-- for the other properties.

-- Returns the ids of e-mails with one property, newest first, starting at `p_from` and below `p_below`. `p_by` is `key`, `address`, `type`, `tag`,
-- `stream`, `campaign` or `user`. All of these properties except addresses are unique only within a workspace. Each statement is written so that one
-- plan suits all parameters (see emails.sql). In the queue, only one index is ordered by (workspace, id). Without statistics, the planner might read
-- all rows through another index.
CREATE OR REPLACE FUNCTION fairpost.led_to(p_workspace text, p_by text, p_value text, p_from bigint, p_below bigint, p_max integer) RETURNS bigint[]
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    found bigint[];
BEGIN
    CASE p_by
    WHEN 'key' THEN
        found := ARRAY(SELECT k.email_id FROM fairpost.idempotency_keys k
                       WHERE k.key_hash = ANY (ARRAY[fairpost.key_hash(p_workspace, p_value), fairpost.caller_key_hash(p_workspace, p_value)]) AND k.email_id >= p_from AND k.email_id < p_below);
    WHEN 'address' THEN
        found := CASE WHEN p_workspace IS NULL THEN fairpost.led_to_by_anybody(p_value, p_from, p_below, p_max)
                 ELSE fairpost.led_to_by_one(p_workspace, p_value, p_from, p_below, p_max) END;
    WHEN 'type' THEN
        found := ARRAY(SELECT l.email_id FROM fairpost.labels l WHERE l.workspace = p_workspace AND l.type = p_value AND l.email_id >= p_from AND l.email_id < p_below
                       ORDER BY l.email_id DESC LIMIT p_max);
    WHEN 'tag' THEN
        found := ARRAY(SELECT m.email_id FROM fairpost.tag_marks m WHERE m.mark = p_value::bigint AND m.email_id >= p_from AND m.email_id < p_below
                       ORDER BY m.email_id DESC LIMIT p_max);
    WHEN 'stream', 'campaign' THEN
        found := ARRAY(
            SELECT n.id FROM (
                SELECT p_value AS stream WHERE p_by = 'stream'
                UNION ALL
                SELECT s.stream FROM fairpost.campaigns c JOIN fairpost.campaign_streams s ON s.campaign_id = c.id
                WHERE p_by = 'campaign' AND c.workspace = p_workspace AND c.name = p_value) s,
            LATERAL (
                (SELECT q.id FROM fairpost.queue q
                 WHERE (q.workspace, q.id) >= (p_workspace, p_from) AND (q.workspace, q.id) < (p_workspace, p_below) AND q.stream = s.stream
                 ORDER BY q.workspace DESC, q.id DESC LIMIT p_max)
                UNION ALL
                (SELECT e.id FROM fairpost.emails e
                 WHERE e.workspace = p_workspace AND e.stream = s.stream AND e.stream <> '' AND e.id >= p_from AND e.id < p_below
                 ORDER BY e.id DESC LIMIT p_max)) n);
    WHEN 'user' THEN
        found := ARRAY(   -- by the normalized name and, for e-mails from before names were normalized, by the name as given
            SELECT n.id FROM (SELECT fairpost.normalize_user(p_value) AS name UNION SELECT p_value) u,
            LATERAL (
                (SELECT q.id FROM fairpost.queue q
                 WHERE (q.workspace, q.id) >= (p_workspace, p_from) AND (q.workspace, q.id) < (p_workspace, p_below) AND q.user_name = u.name
                 ORDER BY q.workspace DESC, q.id DESC LIMIT p_max)
                UNION ALL
                (SELECT e.id FROM fairpost.emails e
                 WHERE e.workspace = p_workspace AND e.user_name = u.name AND e.user_name <> '' AND e.id >= p_from AND e.id < p_below
                 ORDER BY e.id DESC LIMIT p_max)) n);
    END CASE;
    RETURN ARRAY(SELECT DISTINCT n FROM unnest(found) n ORDER BY n DESC LIMIT p_max);
END $$;

-- Returns the ids of one workspace's e-mails to an address. E-mails from other workspaces to the same address are neither read nor counted.
CREATE OR REPLACE FUNCTION fairpost.led_to_by_one(p_workspace text, p_address text, p_from bigint, p_below bigint, p_max integer) RETURNS bigint[]
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    folded CONSTANT text := fairpost.normalize_address(p_address);
    mark CONSTANT integer := hashtext(folded);
    own_mark CONSTANT integer := fairpost.own_mark(p_workspace, folded);
BEGIN
    RETURN ARRAY(SELECT q.id FROM fairpost.queue q
                 WHERE (q.workspace, q.id) >= (p_workspace, p_from) AND (q.workspace, q.id) < (p_workspace, p_below)
                 AND fairpost.address_mark(q.recipients) = mark ORDER BY q.workspace DESC, q.id DESC LIMIT p_max)
        || ARRAY(SELECT e.id FROM fairpost.emails e
                 WHERE (fairpost.address_mark(e.recipients), e.workspace, e.id) >= (mark, p_workspace, p_from)
                 AND (fairpost.address_mark(e.recipients), e.workspace, e.id) < (mark, p_workspace, p_below) AND e.id >= p_from AND e.id < p_below
                 ORDER BY fairpost.address_mark(e.recipients) DESC, e.workspace DESC, e.id DESC LIMIT p_max)
        || ARRAY(WITH marked AS MATERIALIZED (
                     SELECT q.id, q.workspace FROM fairpost.queue q
                     WHERE jsonb_array_length(q.recipients) > 1 AND fairpost.address_marks(q.workspace, q.recipients) @> ARRAY[own_mark]
                     UNION ALL
                     SELECT e.id, e.workspace FROM fairpost.emails e
                     WHERE jsonb_array_length(e.recipients) > 1 AND fairpost.address_marks(e.workspace, e.recipients) @> ARRAY[own_mark])
                 SELECT m.id FROM marked m WHERE m.workspace = p_workspace AND m.id >= p_from AND m.id < p_below);
END $$;

-- Does the same for all workspaces, on behalf of the operator. In history, the search skips directly from one workspace to the next one that has also
-- sent to the address.
CREATE OR REPLACE FUNCTION fairpost.led_to_by_anybody(p_address text, p_from bigint, p_below bigint, p_max integer) RETURNS bigint[]
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    mark CONSTANT integer := hashtext(fairpost.normalize_address(p_address));
BEGIN
    RETURN ARRAY(WITH marked AS MATERIALIZED (
                     SELECT q.id FROM fairpost.queue q WHERE fairpost.address_mark(q.recipients) = mark
                     UNION ALL
                     SELECT q.id FROM fairpost.queue q
                     WHERE jsonb_array_length(q.recipients) > 1 AND fairpost.address_marks(q.workspace, q.recipients) @> ARRAY[mark]
                     UNION ALL
                     SELECT e.id FROM fairpost.emails e
                     WHERE jsonb_array_length(e.recipients) > 1 AND fairpost.address_marks(e.workspace, e.recipients) @> ARRAY[mark])
                 SELECT m.id FROM marked m WHERE m.id >= p_from AND m.id < p_below)
        || ARRAY(WITH RECURSIVE writers AS (
                     SELECT '' AS name
                     UNION ALL
                     SELECT (SELECT e.workspace FROM fairpost.emails e
                             WHERE (fairpost.address_mark(e.recipients), e.workspace) > (mark, w.name) AND fairpost.address_mark(e.recipients) <= mark
                             ORDER BY fairpost.address_mark(e.recipients), e.workspace LIMIT 1)
                     FROM writers w WHERE w.name IS NOT NULL)
                 SELECT n.id FROM writers w, LATERAL (
                     SELECT e.id FROM fairpost.emails e
                     WHERE (fairpost.address_mark(e.recipients), e.workspace, e.id) >= (mark, w.name, p_from)
                     AND (fairpost.address_mark(e.recipients), e.workspace, e.id) < (mark, w.name, p_below) AND e.id >= p_from AND e.id < p_below
                     ORDER BY fairpost.address_mark(e.recipients) DESC, e.workspace DESC, e.id DESC LIMIT p_max) n);
END $$;

-- Returns the ids that match all given properties, newest first. `p_states` are the states shown to users.
CREATE OR REPLACE FUNCTION fairpost.those_that_fit(
    p_ids bigint[], p_workspace text, p_wanted jsonb, p_account bigint, p_campaign bigint, p_states text[], p_max integer, p_now timestamptz
) RETURNS bigint[]
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    wanted_user CONSTANT text := p_wanted ->> 'user';
    wanted_stream CONSTANT text := p_wanted ->> 'stream';
    wanted_key CONSTANT text := p_wanted ->> 'key';
    wanted_type CONSTANT text := p_wanted ->> 'type';
    wanted_tags CONSTANT jsonb := p_wanted -> 'tags';
    person CONSTANT text := fairpost.normalize_address(p_wanted ->> 'to');
    kinds CONSTANT text[] := fairpost.both_kinds(p_states);
BEGIN
    RETURN ARRAY(
        SELECT x.id
        FROM (SELECT q.id, q.state, q.due_at, q.attempts, q.workspace, q.user_name, q.stream, q.account_id, q.campaign_id, q.recipients, q.idempotency_key
              FROM unnest(p_ids) n(id) JOIN fairpost.queue q USING (id)
              UNION ALL
              SELECT e.id, e.state, e.due_at, e.attempts, e.workspace, e.user_name, e.stream, e.account_id, e.campaign_id, e.recipients, e.idempotency_key
              FROM unnest(p_ids) n(id) JOIN fairpost.emails e USING (id)) x
        WHERE (p_workspace IS NULL OR x.workspace = p_workspace)
        AND (p_states IS NULL OR fairpost.kind_of(CASE WHEN x.state <> 'waiting' THEN x.state::text WHEN x.due_at <= p_now THEN 'ready' ELSE 'scheduled' END,
                                                  x.attempts) = ANY (kinds))
        AND (wanted_user IS NULL OR x.user_name IN (wanted_user, fairpost.normalize_user(wanted_user))) AND (wanted_stream IS NULL OR x.stream = wanted_stream)
        AND (p_account IS NULL OR x.account_id = p_account) AND (p_campaign IS NULL OR x.campaign_id = p_campaign)
        AND (wanted_key IS NULL OR x.idempotency_key = wanted_key)
        AND (wanted_type IS NULL AND wanted_tags IS NULL OR EXISTS (
            SELECT FROM (SELECT * FROM fairpost.labels l WHERE l.email_id = x.id OFFSET 0) l
            WHERE (wanted_type IS NULL OR l.type = wanted_type) AND (wanted_tags IS NULL OR l.tags @> wanted_tags)))
        AND (person IS NULL OR fairpost.normalize_address(x.recipients #>> '{0,address}') = person
             OR CASE WHEN jsonb_array_length(x.recipients) > 1 THEN fairpost.is_for(x.recipients, person) ELSE false END)
        ORDER BY x.id DESC LIMIT p_max);
END $$;

-- Returns the newest e-mails, up to `p_max`, that are older than `p_before` and match everything in `p_wanted`: {to, key, campaign, user, stream,
-- account, type, tags, since, until}. Keys, campaigns, users, streams, types and tags belong to a workspace, so searching by them requires its name.
-- The id contains the time at which an e-mail was accepted. Reads at most two thousand e-mails. If the search stopped at that limit before finding
-- `p_max` e-mails, `looked_to` is the last id read. Otherwise, `looked_to` is null.
CREATE OR REPLACE FUNCTION fairpost.search_emails(
    p_workspace text, p_wanted jsonb, p_states text[], p_before bigint, p_max integer, p_now timestamptz DEFAULT NULL,
    OUT ids bigint[], OUT looked_to bigint
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    looked_max CONSTANT integer := 2000;
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    oldest CONSTANT bigint := coalesce(fairpost.first_id_at((p_wanted ->> 'since')::timestamptz), 0);
    below bigint := least(p_before, fairpost.first_id_at((p_wanted ->> 'until')::timestamptz), 9223372036854775807);
    account CONSTANT bigint := (SELECT a.id FROM fairpost.accounts a WHERE a.name = p_wanted ->> 'account');
    campaign CONSTANT bigint := (SELECT c.id FROM fairpost.campaigns c WHERE c.workspace = p_workspace AND c.name = p_wanted ->> 'campaign');
    -- E-mails in these states are rare, so searching by state is faster than searching by sender.
    is_rare_state CONSTANT boolean := p_states IS NOT NULL AND ARRAY(SELECT split_part(s, ':', 1) FROM unnest(p_states) s) <@ '{failed,bounced,suppressed,cancelled,claimed,sending,in_doubt}';
    leads CONSTANT text := CASE WHEN p_wanted ? 'key' THEN 'key' WHEN p_wanted ? 'to' THEN 'address' WHEN is_rare_state THEN 'state'
        WHEN p_wanted ? 'tags' THEN 'tag' WHEN p_wanted ? 'type' THEN 'type' WHEN p_wanted ->> 'stream' <> '' THEN 'stream' WHEN p_wanted ? 'campaign' THEN 'campaign' WHEN p_wanted ->> 'user' <> '' THEN 'user' ELSE 'state' END;
    led_by CONSTANT text := CASE leads WHEN 'address' THEN p_wanted ->> 'to'
        WHEN 'tag' THEN (SELECT fairpost.tag_mark(p_workspace, t.key, t.value)::text FROM jsonb_each_text(p_wanted -> 'tags') t LIMIT 1) ELSE p_wanted ->> leads END;
    batch integer := p_max;
    looked integer := 0;
    candidates bigint[];
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    ids := '{}';
    IF p_workspace IS NULL AND p_wanted ?| '{key,campaign,user,stream,type,tags}' THEN
        RAISE EXCEPTION 'workspace: is required to search by key, campaign, user, stream, type or tag' USING ERRCODE = 'FP001';
    ELSIF p_wanted ? 'account' AND account IS NULL OR p_wanted ? 'campaign' AND campaign IS NULL THEN
        RETURN;
    END IF;
    LOOP
        candidates := CASE WHEN leads <> 'state' THEN
                fairpost.led_to(p_workspace, leads, led_by, oldest, below, batch)
            WHEN p_workspace IS NULL THEN fairpost.newest_of_all(p_states, below, batch, t)
            ELSE fairpost.newest_of(p_workspace, p_states, below, batch, t) END;
        ids := ids || fairpost.those_that_fit(
            ARRAY(SELECT c FROM unnest(candidates) c WHERE c >= oldest), p_workspace, p_wanted, account, campaign, p_states, p_max - cardinality(ids), t);
        below := candidates[cardinality(candidates)];
        looked := looked + batch;
        EXIT WHEN cardinality(ids) = p_max OR cardinality(candidates) < batch OR below < oldest;
        IF looked >= looked_max THEN
            looked_to := below;
            RETURN;
        END IF;
        batch := least(4 * batch, looked_max - looked);
    END LOOP;
END $$;
