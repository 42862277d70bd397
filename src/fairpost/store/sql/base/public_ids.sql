-- Public ids. An internal id increases over time and contains a counter for the whole installation, so two ids from one workspace would reveal how
-- much the other workspaces send. A public id is "em_" followed by 13 characters that look random but can be converted back without storing or
-- looking up anything.
--
-- The conversion is a Feistel network with 8 rounds on the two halves of the number, (a, b) -> (b, a # f(round, b)), where f is the first 4 bytes of
-- sha256(key || round || half). fairpost.model.public_ids does the same in Python.

CREATE OR REPLACE FUNCTION fairpost.permuted(p_key bytea, p_number bigint, p_back boolean) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    a bigint := CASE WHEN p_back THEN p_number & 4294967295 ELSE (p_number >> 32) & 4294967295 END;
    b bigint := CASE WHEN p_back THEN (p_number >> 32) & 4294967295 ELSE p_number & 4294967295 END;
    seal bytea;
    mixed bigint;
BEGIN
    FOR n IN 0..7 LOOP   -- decoding works the same way, with the halves swapped and the rounds reversed
        seal := sha256(p_key || set_byte('\x00', 0, CASE WHEN p_back THEN 7 - n ELSE n END) || substring(int8send(b) FROM 5));
        mixed := a # (get_byte(seal, 0)::bigint << 24 | (get_byte(seal, 1) << 16) | (get_byte(seal, 2) << 8) | get_byte(seal, 3));
        a := b;
        b := mixed;
    END LOOP;
    RETURN CASE WHEN p_back THEN b << 32 | a ELSE a << 32 | b END;
END $$;

-- Returns the public id of an e-mail.
CREATE OR REPLACE FUNCTION fairpost.public_id(p_id bigint) RETURNS text
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    signs CONSTANT text := '0123456789abcdefghjkmnpqrstvwxyz';
    n CONSTANT bigint := fairpost.permuted((SELECT k.key FROM fairpost.public_ids k), p_id, false);
BEGIN
    RETURN 'em_' || substr(signs, (n >> 60 & 15)::integer + 1, 1)
        || substr(signs, (n >> 55 & 31)::integer + 1, 1) || substr(signs, (n >> 50 & 31)::integer + 1, 1) || substr(signs, (n >> 45 & 31)::integer + 1, 1)
        || substr(signs, (n >> 40 & 31)::integer + 1, 1) || substr(signs, (n >> 35 & 31)::integer + 1, 1) || substr(signs, (n >> 30 & 31)::integer + 1, 1)
        || substr(signs, (n >> 25 & 31)::integer + 1, 1) || substr(signs, (n >> 20 & 31)::integer + 1, 1) || substr(signs, (n >> 15 & 31)::integer + 1, 1)
        || substr(signs, (n >> 10 & 31)::integer + 1, 1) || substr(signs, (n >> 5 & 31)::integer + 1, 1) || substr(signs, (n & 31)::integer + 1, 1);
END $$;

-- Returns the internal id, or null if this is not a public id. This function does not check that the e-mail exists.
CREATE OR REPLACE FUNCTION fairpost.private_id(p_public text) RETURNS bigint
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    n bigint := 0;
BEGIN
    IF p_public !~ '^em_[0-9a-f][0-9a-hjkmnp-tv-z]{12}$' COLLATE "C" THEN
        RETURN NULL;
    END IF;
    FOR place IN 4..16 LOOP
        n := n << 5 | strpos('0123456789abcdefghjkmnpqrstvwxyz', substr(p_public, place, 1)) - 1;
    END LOOP;
    RETURN fairpost.permuted((SELECT k.key FROM fairpost.public_ids k), n, true);
END $$;
