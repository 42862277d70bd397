"""Searches for a word in every row of every table of a database, including its catalogs, except large ones that only
contain definitions."""

import psycopg

FIND = """
CREATE OR REPLACE FUNCTION pg_temp.tables_with(word text) RETURNS SETOF text LANGUAGE plpgsql SET search_path = '' AS $$
DECLARE
    each regclass;
    found boolean;
BEGIN
    FOR each IN SELECT c.oid FROM pg_class c WHERE c.relkind IN ('r', 'm') AND c.oid::regclass::text NOT IN (
        'pg_rewrite', 'pg_attribute', 'pg_operator', 'pg_depend', 'pg_type', 'pg_amop', 'pg_aggregate') ORDER BY c.oid LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s t WHERE position($1 IN lower(t::text)) > 0 OR position($2 IN t::text) > 0)', each)
        INTO found USING lower(word), encode(convert_to(word, 'UTF8'), 'hex');   -- as bytes are written
        IF found THEN
            RETURN NEXT each::text;
        END IF;
    END LOOP;
END $$
"""


def tables_with(url: str, word: str) -> list[str]:
    with psycopg.connect(url) as conn:
        conn.execute(FIND)
        return [name for (name,) in conn.execute("SELECT pg_temp.tables_with(%s)", (word,)).fetchall()]
