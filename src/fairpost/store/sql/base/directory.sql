-- Places a workspace in a region, unless the workspace already has a region. Returns its region.
CREATE OR REPLACE FUNCTION fairpost.place_workspace(p_workspace text, p_region text, p_now timestamptz DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO fairpost.directory (workspace, region, created_at) VALUES (p_workspace, p_region, coalesce(p_now, clock_timestamp()))
    ON CONFLICT (workspace) DO NOTHING;
    RETURN (SELECT d.region FROM fairpost.directory d WHERE d.workspace = p_workspace);
END $$;
