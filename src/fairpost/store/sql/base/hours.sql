-- Returns the start of the hour in UTC, so the result is the same in all time zones, even those with a half-hour offset.
CREATE OR REPLACE FUNCTION fairpost.hour_of(moment timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT date_bin(interval '1 hour', moment, timestamptz '2000-01-01 00:00:00+00')
$$;
