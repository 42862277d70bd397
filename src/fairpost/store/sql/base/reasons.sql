-- A reason is a code (noun.what_happened, see reasons/catalogue.py for a list) with its parameters. Front ends render reasons as sentences.

-- Shortens parameters, which may contain long text from a server or a person.
CREATE OR REPLACE FUNCTION fairpost.shortened(p_params jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN length(p_params::text) <= 1000 THEN p_params ELSE CASE jsonb_typeof(p_params)
        WHEN 'string' THEN to_jsonb(left(p_params #>> '{}', 1000))
        WHEN 'object' THEN (SELECT jsonb_object_agg(e.key, fairpost.shortened(e.value)) FROM jsonb_each(p_params) e)
        WHEN 'array' THEN (SELECT jsonb_agg(fairpost.shortened(e.value) ORDER BY e.ordinality) FROM jsonb_array_elements(p_params) WITH ORDINALITY e)
        ELSE p_params END END
$$;

-- Combines a code and its parameters into a single text, for tables that have a single text column for both. These tables cannot be altered, because
-- callers keep them locked. Sentences stored before codes existed are kept.
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
