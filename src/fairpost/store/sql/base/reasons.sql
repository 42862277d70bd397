-- Why things are as they are: a code (noun.what_happened, all of them in reasons/catalogue.py) and its parameters. Sentences are made where people read them.

-- What a server replied or a person typed is a parameter, and may be long.
CREATE OR REPLACE FUNCTION fairpost.shortened(p_params jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN length(p_params::text) <= 1000 THEN p_params
        ELSE (SELECT jsonb_object_agg(e.key, CASE jsonb_typeof(e.value) WHEN 'string' THEN to_jsonb(left(e.value #>> '{}', 1000)) ELSE e.value END) FROM jsonb_each(p_params) e) END
$$;

-- Where a table has one column of text for it, because callers hold that table and it cannot be altered: both in one. Sentences from before there were codes stay.
CREATE OR REPLACE FUNCTION fairpost.in_one(p_reason text, p_params jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_params IS NULL THEN p_reason ELSE jsonb_build_object('code', p_reason, 'params', p_params)::text END
$$;

CREATE OR REPLACE FUNCTION fairpost.code_in(said text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(substring(said FROM '^\{"code": "([a-z_]+\.[a-z_]+)", "params": '), said)
$$;

CREATE OR REPLACE FUNCTION fairpost.params_in(said text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN fairpost.code_in(said) <> said THEN said::jsonb -> 'params' END
$$;
