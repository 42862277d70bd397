-- What became of an e-mail, for the program that handed it in: by its key alone, cheap enough for every view of a page. All null where there is no such e-mail
-- in the workspaces of this session. `due_at`: when it may be tried next; null for one that waits for another. `reason`: a code, see docs/conditions.md.
DROP FUNCTION IF EXISTS fairpost.status(bigint);
CREATE OR REPLACE FUNCTION fairpost.status(
    p_id bigint, OUT state text, OUT attempts integer, OUT due_at timestamptz, OUT finished_at timestamptz, OUT reason text, OUT reason_params jsonb
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
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
    state := coalesce(CASE WHEN queued.state <> 'waiting' THEN queued.state::text WHEN queued.due_at <= clock_timestamp() THEN 'ready' WHEN queued.due_at IS NOT NULL THEN 'scheduled' END,
                      ended.state::text);
    attempts := coalesce(queued.attempts, ended.attempts);
    due_at := nullif(queued.due_at, 'infinity');
    finished_at := ended.finished_at;
    reason := coalesce(fairpost.code_in(queued.last_error), ended.reason);
    reason_params := coalesce(fairpost.params_in(queued.last_error), ended.reason_params);
END $$;
