-- When an hour began. By UTC, so that it is the same hour for everybody, also where zones are half an hour apart.
CREATE OR REPLACE FUNCTION fairpost.hour_of(moment timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT date_bin(interval '1 hour', moment, timestamptz '2000-01-01 00:00:00+00')
$$;
