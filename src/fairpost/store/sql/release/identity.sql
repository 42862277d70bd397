-- Reads and records the evidence that shows whether a database was restored or copied. policy/restored.py makes the decision.

-- Returns as much of this database's current identity as this role may read.
CREATE OR REPLACE FUNCTION fairpost.identity_now(OUT system_identifier bigint, OUT database_oid bigint, OUT table_oid bigint, OUT timeline integer)
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp AS $$
BEGIN
    database_oid := (SELECT d.oid::bigint FROM pg_database d WHERE d.datname = current_database());
    table_oid := 'fairpost.identity'::regclass::oid::bigint;
    -- Managed PostgreSQL services forbid different functions and raise different errors.
    BEGIN
        system_identifier := (SELECT s.system_identifier FROM pg_control_system() s);
    EXCEPTION WHEN OTHERS THEN
        NULL;
    END;
    BEGIN
        timeline := ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer;
    EXCEPTION WHEN OTHERS THEN
        NULL;
    END;
END $$;

-- Records the identity of the database on its very first start. If several calls run concurrently, only one takes effect.
CREATE OR REPLACE FUNCTION fairpost.remember_identity(p_folder text, p_now timestamptz DEFAULT NULL) RETURNS void
LANGUAGE sql SET search_path = fairpost, pg_catalog, pg_temp AS $$
    INSERT INTO fairpost.identity (system_identifier, database_oid, table_oid, timeline, folder, since)
    SELECT n.system_identifier, n.database_oid, n.table_oid, n.timeline, p_folder, coalesce(p_now, clock_timestamp())
    FROM fairpost.identity_now() n
    ON CONFLICT DO NOTHING
$$;

-- Called when a person has accepted a restore. From then on, the database's current state counts as valid, and the steps that engines recorded in the
-- database's previous life are ignored. Workers notice the change when they resume their leases.
CREATE OR REPLACE FUNCTION fairpost.begin_new_life(p_now timestamptz) RETURNS void
LANGUAGE sql SET search_path = fairpost, pg_catalog, pg_temp AS $$
    DELETE FROM fairpost.identity_checks;
    DELETE FROM fairpost.identity;
    SELECT fairpost.remember_identity(NULL, p_now);
    UPDATE fairpost.leases SET server = NULL WHERE server IS NOT NULL;
    UPDATE fairpost.routes SET seen = DEFAULT, seen_by = DEFAULT, turn = turn + 1;   -- transaction ids may have restarted
    SELECT fairpost.begin_event_series(true);
$$;

-- Stores values that this role could not read before.
DROP FUNCTION IF EXISTS fairpost.update_identity(uuid, text, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.update_identity(p_life uuid, p_folder text) RETURNS void
LANGUAGE sql SET search_path = fairpost, pg_catalog, pg_temp AS $$
    UPDATE fairpost.identity i SET timeline = coalesce(i.timeline, seen.timeline), folder = coalesce(p_folder, i.folder),
        system_identifier = coalesce(i.system_identifier, seen.system_identifier)
    FROM fairpost.identity_now() seen WHERE i.life = p_life
$$;

-- Records that this engine is still running. Returns how many times this has been recorded, or no row if the database has started a new life in the
-- meantime.
CREATE OR REPLACE FUNCTION fairpost.check_identity(p_life uuid, p_engine uuid, p_name text, p_now timestamptz DEFAULT NULL)
RETURNS TABLE (beats bigint, at timestamptz)
LANGUAGE sql SET search_path = fairpost, pg_catalog, pg_temp AS $$
    INSERT INTO fairpost.identity_checks AS w (engine, name, beats, at)
    SELECT p_engine, left(p_name, 200), 1, coalesce(p_now, clock_timestamp()) FROM fairpost.identity i WHERE i.life = p_life
    ON CONFLICT (engine) DO UPDATE SET beats = w.beats + 1, name = excluded.name, at = excluded.at
    RETURNING w.beats, w.at
$$;
