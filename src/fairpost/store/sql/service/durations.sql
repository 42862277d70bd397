-- Adds the durations that a service process has measured since its previous call: [{route, method, status, bucket, n, total_us}]. Rows are always
-- written in the same order, so that processes never deadlock.
CREATE OR REPLACE FUNCTION fairpost.add_http_durations(p_seen jsonb) RETURNS void
LANGUAGE sql SET search_path = fairpost, pg_catalog, pg_temp AS $$
    INSERT INTO fairpost.http_durations AS d (route, method, status, bucket, n, total_us)
    SELECT s.* FROM jsonb_to_recordset(p_seen) s(route text, method text, status text, bucket smallint, n bigint, total_us bigint) ORDER BY 1, 2, 3, 4
    ON CONFLICT (route, method, status, bucket) DO UPDATE SET n = d.n + excluded.n, total_us = d.total_us + excluded.total_us
$$;
