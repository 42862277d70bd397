-- Checks whether the engines have confirmed the current server, and lets them confirm it.
--
-- After a failover to a lagging standby, or on a restored server, commits that were acknowledged to engines may be missing. E-mails would then be sent
-- twice. Each durable begin and settle increases the step of the account's lease, and engines record the last step that was acknowledged
-- (engine/steps.py). A server is identified by its start time. Until the engines have confirmed this start time, no lease is stamped with it, and
-- claim and begin_send refuse to work. This also works behind a pooler, where the server can change without the connection being lost. The first engine that
-- detects the change asks all engines that were active within a minute of the last recorded activity in the database. Each engine compares the steps
-- that it has recorded with those in the database. When all engines have answered, the server is confirmed.

CREATE OR REPLACE FUNCTION fairpost.is_confirmed() RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT s.confirmed = pg_postmaster_start_time() FROM fairpost.server s
$$;

-- Returns whether this server is confirmed. If it is not, asks the engines once.
CREATE OR REPLACE FUNCTION fairpost.ask_about_server(p_now timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    lag_max CONSTANT interval := '1 hour';
BEGIN
    IF fairpost.is_confirmed() THEN
        RETURN true;
    END IF;
    UPDATE fairpost.server s SET asked = pg_postmaster_start_time(), asked_at = t
    WHERE s.confirmed <> pg_postmaster_start_time() AND s.asked IS DISTINCT FROM pg_postmaster_start_time();
    IF FOUND THEN
        UPDATE fairpost.engines e SET asked = pg_postmaster_start_time()
        WHERE e.seen_at > greatest((SELECT max(o.seen_at) FROM fairpost.engines o) - interval '1 minute', t - lag_max);
    END IF;
    RETURN fairpost.is_confirmed();
END $$;

-- Records an engine's answer about this server. For each account that the engine has driven in this life of the database, the answer contains the
-- last recorded step. `verdict` is one of these:
--   confirmed   without the engines in `waits_for`, if any
--   waiting     for the engines in `waits_for`
--   behind      the accounts in `behind` have lower steps here, so commits are missing
--   silent      the engines in `waits_for` have not answered in time, and there is no proof that this server has all commits
CREATE OR REPLACE FUNCTION fairpost.confirm_server(
    p_engine text, p_life uuid, p_accounts bigint[], p_steps bigint[], p_now timestamptz DEFAULT NULL,
    OUT verdict text, OUT waits_for text[], OUT behind bigint[], OUT behind_at bigint[]
)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    patience CONSTANT interval := '30 seconds';
    grace CONSTANT interval := '10 seconds';
    s fairpost.server;
    t timestamptz;
    now_timeline CONSTANT integer := (SELECT n.timeline FROM fairpost.identity_now() n);
BEGIN
    SELECT * INTO s FROM fairpost.server FOR UPDATE;
    t := coalesce(p_now, clock_timestamp());
    SELECT coalesce(array_agg(m.account ORDER BY m.account), '{}'), coalesce(array_agg(coalesce(l.step, -1) ORDER BY m.account), '{}') INTO behind, behind_at
    FROM unnest(p_accounts, p_steps) m(account, step) LEFT JOIN fairpost.leases l ON l.account_id = m.account
    WHERE coalesce(l.step, -1) < m.step AND p_life = fairpost.current_life()
    AND NOT EXISTS (SELECT FROM fairpost.removed_accounts r WHERE r.account_id = m.account);
    IF behind <> '{}' THEN
        verdict := 'behind';
        RETURN;
    END IF;
    UPDATE fairpost.engines e SET asked = NULL WHERE e.id = p_engine AND e.asked IS NOT NULL;
    DELETE FROM fairpost.engines e WHERE e.heir = p_engine;
    IF s.confirmed = pg_postmaster_start_time() THEN
        verdict := 'confirmed';
        UPDATE fairpost.server SET timeline = now_timeline WHERE timeline IS NULL;
        RETURN;
    END IF;
    waits_for := ARRAY(SELECT e.id FROM fairpost.engines e WHERE e.asked IS NOT NULL ORDER BY e.id);
    IF waits_for <> '{}' AND t <= s.asked_at + patience THEN
        verdict := 'waiting';
        RETURN;
    ELSIF waits_for <> '{}' AND now_timeline IS DISTINCT FROM s.timeline THEN
        verdict := 'silent';
        RETURN;
    END IF;
    -- Either all engines have answered, or it is the same server after a restart, which loses no commits. After a mere restart, there is no need to
    -- wait for missing engines.
    verdict := 'confirmed';
    PERFORM fairpost.accept_server(t);
    DELETE FROM fairpost.pauses p WHERE p.waits_for IS NOT NULL;
    -- Engines that have reconnected resume their leases, regardless of how long the server was down.
    UPDATE fairpost.leases l SET until = greatest(l.until, t + grace)
    WHERE l.owner IN (SELECT e.id FROM fairpost.engines e WHERE e.seen_at >= s.asked_at - interval '5 seconds');
END $$;

-- From now on, engines may claim e-mails and begin sending them on this server.
CREATE OR REPLACE FUNCTION fairpost.accept_server(p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    before CONSTANT integer := (SELECT s.timeline FROM fairpost.server s);
    seen CONSTANT integer := (SELECT n.timeline FROM fairpost.identity_now() n);
BEGIN
    UPDATE fairpost.server s SET confirmed = pg_postmaster_start_time(), timeline = seen, asked = NULL, asked_at = NULL;
    UPDATE fairpost.engines e SET asked = NULL WHERE e.asked IS NOT NULL;
    UPDATE fairpost.identity i SET timeline = seen WHERE i.timeline <> seen;
    IF before <> seen THEN
        PERFORM fairpost.begin_event_series(false);
        INSERT INTO fairpost.events (at, kind, subject, detail) VALUES (p_now, 'failed over', 'database', jsonb_build_object('timeline', seen, 'before', before));
    END IF;
END $$;

-- Returns the current life of the database. Engines need it when they start.
CREATE OR REPLACE FUNCTION fairpost.current_life() RETURNS uuid
LANGUAGE sql STABLE AS $$
    SELECT i.life FROM fairpost.identity i
$$;

-- Pauses all sending until a person resumes it, because commits are missing here. `p_life` is the life of the database in which this was detected.
-- Resuming starts a new life, so that earlier observations no longer have any effect. The pause is locked first, as in `resume`.
DROP FUNCTION IF EXISTS fairpost.pause_restored(text, text, uuid, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.pause_restored(p_reason text, p_params jsonb, p_by text, p_life uuid, p_now timestamptz DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM fairpost.pauses p WHERE p.everything FOR UPDATE;
    IF fairpost.current_life() IS NOT DISTINCT FROM p_life THEN
        PERFORM fairpost.pause(p_reason, p_by, p_restored => true, p_now => p_now, p_params => p_params);
    END IF;
END $$;

-- Pauses all sending until the named engines have answered or a person resumes sending. An existing pause is kept. If the server was confirmed in the
-- meantime, nothing is paused.
DROP FUNCTION IF EXISTS fairpost.pause_for_engines(text, text, text[], timestamptz);
CREATE OR REPLACE FUNCTION fairpost.pause_for_engines(p_reason text, p_params jsonb, p_by text, p_engines text[], p_now timestamptz DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    PERFORM fairpost.await_begins();
    PERFORM FROM fairpost.server FOR SHARE;
    IF NOT fairpost.is_confirmed() AND NOT EXISTS (SELECT FROM fairpost.pauses p WHERE p.everything AND p.until > t) THEN
        PERFORM fairpost.pause(p_reason, p_by, p_now => p_now, p_params => p_params);
        UPDATE fairpost.pauses p SET waits_for = p_engines WHERE p.everything;
    END IF;
END $$;
