-- Decides whether two user names are the same. For example, `Ann`, ` ann ` and `ａnn` are one user, with one limit, one score and one place in the
-- queue. Names are normalized before they are stored, so stored names can be compared directly.

-- For ASCII names, by far the most common, this costs no more than lower().
CREATE OR REPLACE FUNCTION fairpost.normalize_user(name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(name) = length(name) THEN btrim(lower(name COLLATE "C")) COLLATE "default" ELSE fairpost.normalize_user_letters(name) END
$$;

-- Converts letters to one case, width and form (NFKC), and removes invisible characters. One letter may become several, so the result is truncated to
-- a length that fits in all indexes.
CREATE OR REPLACE FUNCTION fairpost.normalize_user_letters(name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    unseen CONSTANT text := '[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]';
    folded CONSTANT text := translate(fairpost.small_letters(normalize(regexp_replace(name, unseen, '', 'g'), NFKD)), 'ıς', 'iσ');
BEGIN
    RETURN btrim(left(normalize(btrim(fairpost.small_letters(normalize(replace(folded, U&'i\0307', 'i'), NFKD)), U&' \1680'), NFKC), 200), U&' \1680');
END $$;

-- Returns whether a name is reserved. Callers cannot use reserved names, because these names identify the key, login or person to which e-mails
-- without a user are attributed.
CREATE OR REPLACE FUNCTION fairpost.is_reserved_user(folded text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT folded ~ '^(key|login|person):'
$$;

-- Returns the normalized name of a user given on the command line, or the name as given if mail enqueued before names were normalized is still
-- waiting under that name.
CREATE OR REPLACE FUNCTION fairpost.user_named(p_workspace text, p_user text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_user <> fairpost.normalize_user(p_user) AND EXISTS (
        SELECT FROM fairpost.nodes n WHERE n.workspace = p_workspace AND n.level = 'user' AND n.key = p_user) THEN p_user ELSE fairpost.normalize_user(p_user) END
$$;
