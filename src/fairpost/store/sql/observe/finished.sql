-- Returns how many e-mails have finished since the given time, by state.
CREATE OR REPLACE FUNCTION fairpost.finished_since(p_since timestamptz) RETURNS TABLE (state fairpost.email_state, n bigint)
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET jit = off AS $$
    SELECT e.state, count(*) FROM fairpost.emails e WHERE e.finished_at > p_since GROUP BY e.state
$$;
