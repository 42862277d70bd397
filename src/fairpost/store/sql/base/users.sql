-- When two names of users are the same: `Ann`, ` ann ` and `ａnn` are one user, who has one limit, one score and one place in the queue. Names are folded at
-- every door, and so those that are stored can be compared as they are.

-- What is ASCII, as nearly all is, costs no more than its lower case.
CREATE OR REPLACE FUNCTION fairpost.normalize_user(name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(name) = length(name) THEN btrim(lower(name COLLATE "C")) COLLATE "default" ELSE fairpost.normalize_user_letters(name) END
$$;

-- Without regard to case, width and other forms of the same letters (NFKC), and without what cannot be seen. One letter may become many: cut, so that a name
-- fits into every index.
CREATE OR REPLACE FUNCTION fairpost.normalize_user_letters(name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    unseen CONSTANT text := '[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]';
    folded CONSTANT text := translate(fairpost.small_letters(normalize(regexp_replace(name, unseen, '', 'g'), NFKD)), 'ıς', 'iσ');
BEGIN
    RETURN btrim(left(normalize(btrim(fairpost.small_letters(normalize(replace(folded, U&'i\0307', 'i'), NFKD)), U&' \1680'), NFKC), 200), U&' \1680');
END $$;

-- Names that no caller gives: whoever hands in an e-mail that names no user is its user, by key, login or person.
CREATE OR REPLACE FUNCTION fairpost.is_reserved_user(folded text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT folded ~ '^(key|login|person):'
$$;

-- A user as somebody at the command line names them: folded. While mail waits under another form of the name, from before names were folded, that form means itself.
CREATE OR REPLACE FUNCTION fairpost.user_named(p_workspace text, p_user text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_user <> fairpost.normalize_user(p_user) AND EXISTS (
        SELECT FROM fairpost.nodes n WHERE n.workspace = p_workspace AND n.level = 'user' AND n.key = p_user) THEN p_user ELSE fairpost.normalize_user(p_user) END
$$;
