-- Authenticates a key and checks its rate limit in one round trip. The limit is enforced exactly, across all processes on all machines.

-- Counts one request against a caller's rate limit. A minute's allowance can be used all at once and refills evenly. `wait_s` is the time until the
-- next request is allowed, or null if this one is allowed.
CREATE OR REPLACE FUNCTION fairpost.take_turn(
    p_caller text, p_per_minute integer, p_now timestamptz DEFAULT NULL, OUT remaining integer, OUT reset_s double precision, OUT wait_s double precision
)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    each CONSTANT interval := make_interval(secs => 60.0 / p_per_minute);
    next timestamptz;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO fairpost.rate_buckets AS p (caller, full_at) VALUES (p_caller, t + each)
    ON CONFLICT (caller) DO UPDATE SET full_at = greatest(p.full_at, t) + each WHERE greatest(p.full_at, t) + each <= t + interval '60 seconds 1 millisecond'
    RETURNING p.full_at INTO next;
    IF next IS NULL THEN
        next := (SELECT p.full_at FROM fairpost.rate_buckets p WHERE p.caller = p_caller);
        wait_s := greatest(0.001, extract(epoch FROM next + each - t) - 60);
    END IF;
    reset_s := greatest(0, extract(epoch FROM next - t));
    remaining := greatest(0, floor((60.001 - reset_s) * p_per_minute / 60.0));
END $$;

-- Authenticates an API key. Returns the key's workspace and scopes, and counts the request against the rate limits of the key and the workspace. The
-- result shows whichever limit has fewer requests left. `refused` is `unknown`, `revoked`, `expired`, `suspended` or `too_often`. If `refused` is
-- set, the request must be rejected.
CREATE OR REPLACE FUNCTION fairpost.enter(
    p_id text, p_hash bytea, p_now timestamptz DEFAULT NULL, OUT refused text, OUT workspace text, OUT name text, OUT scopes text[], OUT per_minute integer,
    OUT remaining integer, OUT reset_s double precision, OUT wait_s double precision
)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    k record;
    turn record;
BEGIN
    SELECT a.*, w.suspended_at, w.per_minute AS workspace_per_minute INTO k FROM fairpost.api_keys a JOIN fairpost.workspaces w ON w.name = a.workspace WHERE a.id = p_id;
    refused := CASE WHEN k.secret_hash IS DISTINCT FROM p_hash OR k.id IS NULL THEN 'unknown' WHEN k.revoked_at IS NOT NULL THEN 'revoked'
                    WHEN k.expires_at <= t THEN 'expired' WHEN k.suspended_at IS NOT NULL THEN 'suspended' END;
    IF refused IS NOT NULL THEN
        RETURN;
    END IF;
    workspace := k.workspace;
    name := k.name;
    scopes := k.scopes;
    per_minute := k.per_minute;
    SELECT * INTO turn FROM fairpost.take_turn('key ' || p_id, k.per_minute, p_now);
    remaining := turn.remaining;
    reset_s := turn.reset_s;
    wait_s := turn.wait_s;
    IF wait_s IS NULL THEN   -- all keys of a workspace together also have a rate limit
        SELECT * INTO turn FROM fairpost.take_turn('workspace ' || k.workspace, k.workspace_per_minute, p_now);
        wait_s := turn.wait_s;
        IF turn.remaining < remaining OR wait_s IS NOT NULL THEN   -- the caller is shown the limit that applies
            per_minute := k.workspace_per_minute;
            remaining := turn.remaining;
            reset_s := turn.reset_s;
        END IF;
    END IF;
    refused := CASE WHEN wait_s IS NOT NULL THEN 'too_often' END;
    IF k.last_used_at IS NULL OR k.last_used_at < t - interval '1 minute' THEN
        UPDATE fairpost.api_keys a SET last_used_at = t WHERE a.id = p_id AND (a.last_used_at IS NULL OR a.last_used_at < t - interval '1 minute');
    END IF;
END $$;
