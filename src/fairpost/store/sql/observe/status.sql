-- Returns the status of an e-mail for the program that submitted it. The e-mail is looked up by its key alone, which is fast enough to do for every
-- page view. All columns are null if there is no such e-mail in the workspaces of this session. `due_at` is the time at which the e-mail may be tried
-- next, or null if it waits for another e-mail. `reason` is the reason for its state, as a code (see docs/conditions.md). `waits_for` is a code for
-- what delays a waiting e-mail beyond its due time, until `waits_until` (null: until released). `code` and `reply` come from the server's last
-- response.
DROP FUNCTION IF EXISTS fairpost.status(bigint);
DROP FUNCTION IF EXISTS fairpost.status(bigint, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.status(
    p_id bigint, p_now timestamptz DEFAULT NULL, OUT state text, OUT attempts integer, OUT due_at timestamptz, OUT finished_at timestamptz, OUT reason text, OUT reason_params jsonb,
    OUT waits_for text, OUT waits_until timestamptz, OUT code integer, OUT reply text, OUT type text, OUT tags jsonb, OUT metadata jsonb
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    queued fairpost.queue;
    ended fairpost.emails;
    whose text;
BEGIN
    SELECT * INTO queued FROM fairpost.queue q WHERE q.id = p_id;
    IF NOT FOUND THEN
        SELECT * INTO ended FROM fairpost.emails e WHERE e.id = p_id;
    END IF;
    whose := coalesce(queued.workspace, ended.workspace);
    IF whose IS NULL OR whose <> fairpost.tenant() OR whose <> ALL (fairpost.spoken_for()) THEN
        RETURN;
    END IF;
    state := coalesce(CASE WHEN queued.state <> 'waiting' THEN queued.state::text WHEN queued.due_at <= t THEN 'ready' WHEN queued.due_at IS NOT NULL THEN 'scheduled' END,
                      ended.state::text);
    attempts := coalesce(queued.attempts, ended.attempts);
    due_at := nullif(queued.due_at, 'infinity');
    finished_at := ended.finished_at;
    reason := coalesce(fairpost.code_in(queued.last_error), ended.reason);
    reason_params := coalesce(fairpost.params_in(queued.last_error), ended.reason_params);
    IF fairpost.is_bound() THEN
        reason_params := fairpost.params_known_to(whose, reason_params);
    END IF;
    SELECT l.type, l.tags, l.metadata INTO type, tags, metadata FROM fairpost.labels l WHERE l.email_id = p_id;
    IF attempts > 0 THEN
        SELECT a.code, a.reply INTO code, reply FROM fairpost.attempts a WHERE a.email_id = p_id ORDER BY a.n DESC LIMIT 1;
    END IF;
    IF queued.waiting THEN
        SELECT s.reason, nullif(s.until, 'infinity') INTO waits_for, waits_until FROM (
            SELECT p.reason, p.until FROM fairpost.pauses p WHERE p.everything
            UNION ALL
            SELECT s.reason, s.until
            FROM (VALUES ('workspace'::fairpost.node_level, ''), ('domain', queued.domain), ('user', queued.user_name), ('stream', queued.stream)) v(level, key)
            CROSS JOIN LATERAL (SELECT * FROM fairpost.sender_rules r WHERE r.workspace = queued.workspace AND r.level = v.level AND r.key = v.key OFFSET 0) r
            CROSS JOIN LATERAL fairpost.stops_by(r::fairpost.sender_rules) s) s
        WHERE s.until > t ORDER BY s.until DESC LIMIT 1;
    END IF;
END $$;

-- Returns a workspace's newest e-mails that have this tag and an id below the given id, each with its status. The default is the session's own
-- workspace.
DROP FUNCTION IF EXISTS fairpost.find(text, text, text, integer, bigint, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.find(
    p_name text, p_value text, p_workspace text DEFAULT NULL, p_max integer DEFAULT 50, p_before bigint DEFAULT NULL, p_now timestamptz DEFAULT NULL
) RETURNS TABLE (
    id bigint, state text, attempts integer, due_at timestamptz, finished_at timestamptz, reason text, reason_params jsonb,
    waits_for text, waits_until timestamptz, code integer, reply text, type text, tags jsonb, metadata jsonb
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    whose CONSTANT text := coalesce(p_workspace, fairpost.tenant(), fairpost.own_workspace(fairpost.spoken_for()));
    found bigint[];
BEGIN
    PERFORM fairpost.require_own(whose);
    found := ARRAY(SELECT m.email_id FROM fairpost.tag_marks m WHERE m.mark = fairpost.tag_mark(whose, p_name, p_value) AND m.email_id < coalesce(p_before, 9223372036854775807)
                   ORDER BY m.email_id DESC LIMIT least(greatest(p_max, 1), 1000));
    RETURN QUERY
    SELECT f.id, s.* FROM unnest(found) WITH ORDINALITY f(id, place)
    CROSS JOIN LATERAL (SELECT FROM fairpost.labels l WHERE l.email_id = f.id AND l.workspace = whose AND l.tags ->> p_name = p_value OFFSET 0) l
    CROSS JOIN LATERAL fairpost.status(f.id, p_now) s ORDER BY f.place;
END $$;
