-- What a workspace may use of the operator's, and in whose name.

-- A pool of the operator's that a workspace may send through, and what may stand in From there: addresses and domains (folded), `proven` (what the workspace
-- has shown to be its own) and `account` (mail that names no From goes out with the account's own address).
CREATE TABLE fairpost.loans (
    workspace text NOT NULL REFERENCES fairpost.workspaces ON DELETE CASCADE,
    pool      text NOT NULL,
    senders   text[] NOT NULL CHECK (cardinality(senders) BETWEEN 1 AND 100),
    PRIMARY KEY (workspace, pool)
);
ALTER TABLE fairpost.loans ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.loans USING (workspace = (SELECT current_setting('fairpost.workspace', true)));

-- What was lent before goes on as it was: nobody's mail stops.
INSERT INTO fairpost.loans (workspace, pool, senders) SELECT DISTINCT w.name, p, '{proven,account}'::text[] FROM fairpost.workspaces w, unnest(w.pools) p;
ALTER TABLE fairpost.workspaces DROP COLUMN pools;

-- Mailboxes of people, each shown to be a workspace's own by a login at its provider. One mailbox belongs to one account, in one workspace.
CREATE TABLE fairpost.mailboxes (
    mailbox      text PRIMARY KEY,           -- one name for all its addresses: without a tag, and at Google without dots
    workspace    text NOT NULL,
    address      text NOT NULL,              -- folded: this one may stand in From
    account_id   bigint NOT NULL UNIQUE REFERENCES fairpost.accounts ON DELETE CASCADE,
    proven_at    timestamptz NOT NULL,
    failed_since timestamptz                 -- nobody could log in since then; null: the last login went well
);
CREATE INDEX mailboxes_by_address ON fairpost.mailboxes (workspace, address);
ALTER TABLE fairpost.mailboxes ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.mailboxes USING (workspace = (SELECT current_setting('fairpost.workspace', true)));

-- How much of a volume was urgent.
ALTER TABLE fairpost.activity ADD COLUMN urgent integer NOT NULL DEFAULT 0;

-- What a workspace is and may, the operator says: a request changes what is known of users alone.
-- A trigger and not a policy, which it behaves like: every open transaction of a caller has read this table, and no policy could be laid meanwhile.
CREATE FUNCTION fairpost.guard_workspace_row() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('role') <> 'fairpost_tenant' THEN
        RETURN coalesce(NEW, OLD);
    ELSIF OLD.level = 'workspace' THEN
        RETURN NULL;   -- not there, for a request
    ELSIF NEW.level = 'workspace' THEN
        RAISE EXCEPTION 'what a workspace is and may, the operator says' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN coalesce(NEW, OLD);
END $$;
CREATE TRIGGER guard_workspace_row BEFORE INSERT OR UPDATE OR DELETE ON fairpost.senders FOR EACH ROW EXECUTE FUNCTION fairpost.guard_workspace_row();

-- From now on a name of a user is folded at every door, so that `Ann` and `ann` are one. E-mails that wait keep the name they came with, and its rules. What is
-- known and counted of other forms of a name holds for the folded one, too; where both are known, the stricter. (As base/users.sql folds, of which there is nothing yet.)
DO $$
DECLARE
    folds CONSTANT boolean := EXISTS (SELECT FROM fairpost.senders s WHERE s.level = 'user') OR EXISTS (SELECT FROM fairpost.activity) OR EXISTS (SELECT FROM fairpost.submissions)
        OR EXISTS (SELECT FROM fairpost.rules r WHERE r.level = 'user') OR EXISTS (SELECT FROM fairpost.homes) OR EXISTS (SELECT FROM fairpost.activity_days) OR EXISTS (SELECT FROM fairpost.campaigns);
BEGIN
    IF NOT folds THEN
        RETURN;
    END IF;
    CREATE FUNCTION pg_temp.folded(name text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $f$
    BEGIN
        IF octet_length(name) = length(name) THEN
            RETURN btrim(lower(name COLLATE "C")) COLLATE "default";
        END IF;
        RETURN btrim(left(normalize(btrim(fairpost.small_letters(normalize(name, NFKD))), NFKC), 200));
    END $f$;

    -- Asked first, because it is cheap: others wait for us.
    CREATE FUNCTION pg_temp.differs(name text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $f$
        SELECT octet_length(name) <> length(name) OR name <> btrim(lower(name COLLATE "C"))
    $f$;

    INSERT INTO fairpost.senders AS s
    SELECT DISTINCT ON (x.workspace, pg_temp.folded(x.name)) (jsonb_populate_record(x, jsonb_build_object('name', pg_temp.folded(x.name), 'look_at', '-infinity'))).*
    FROM fairpost.senders x WHERE x.level = 'user' AND pg_temp.differs(x.name) AND x.name <> pg_temp.folded(x.name)
    ORDER BY x.workspace, pg_temp.folded(x.name), x.throttled_until DESC NULLS LAST
    ON CONFLICT (workspace, level, name) DO UPDATE SET daily_max = least(s.daily_max, excluded.daily_max), waiting_max = least(s.waiting_max, excluded.waiting_max),
        look_at = '-infinity', revision = s.revision + 1,
        (throttled_since, throttled_until, is_enforced, is_by_hand, reasons, tier) = (
            SELECT w.throttled_since, w.throttled_until, w.is_enforced, w.is_by_hand, w.reasons, w.tier
            FROM (VALUES (s.throttled_since, s.throttled_until, s.is_enforced, s.is_by_hand, s.reasons, s.tier),
                         (excluded.throttled_since, excluded.throttled_until, excluded.is_enforced, excluded.is_by_hand, excluded.reasons, excluded.tier)
                 ) w(throttled_since, throttled_until, is_enforced, is_by_hand, reasons, tier) ORDER BY w.throttled_until DESC NULLS LAST LIMIT 1);

    INSERT INTO fairpost.rules AS r
    SELECT DISTINCT ON (x.workspace, pg_temp.folded(x.key)) (jsonb_populate_record(x, jsonb_build_object('key', pg_temp.folded(x.key)))).*
    FROM fairpost.rules x WHERE x.level = 'user' AND pg_temp.differs(x.key) AND x.key <> pg_temp.folded(x.key)
    ORDER BY x.workspace, pg_temp.folded(x.key), greatest(x.held_until, x.throttled_until) DESC NULLS LAST
    ON CONFLICT (workspace, level, key) DO UPDATE SET held_until = greatest(r.held_until, excluded.held_until), hold_reason = coalesce(r.hold_reason, excluded.hold_reason),
        throttled_until = greatest(r.throttled_until, excluded.throttled_until), throttle_reason = coalesce(r.throttle_reason, excluded.throttle_reason), tier = least(r.tier, excluded.tier);

    INSERT INTO fairpost.homes (workspace, user_name, is_given, domain, is_proven)
    SELECT DISTINCT ON (h.workspace, pg_temp.folded(h.user_name), h.is_given) h.workspace, pg_temp.folded(h.user_name), h.is_given, h.domain, h.is_proven
    FROM fairpost.homes h WHERE pg_temp.differs(h.user_name) AND h.user_name <> pg_temp.folded(h.user_name) ORDER BY h.workspace, pg_temp.folded(h.user_name), h.is_given, h.is_proven DESC
    ON CONFLICT DO NOTHING;

    UPDATE fairpost.campaigns c SET user_name = pg_temp.folded(c.user_name) WHERE c.state = 'draft' AND c.user_name <> pg_temp.folded(c.user_name);
    UPDATE fairpost.activity a SET user_name = pg_temp.folded(a.user_name) WHERE pg_temp.differs(a.user_name) AND a.user_name <> pg_temp.folded(a.user_name);
    WITH gone AS (DELETE FROM fairpost.activity_days d WHERE pg_temp.differs(d.user_name) AND d.user_name <> pg_temp.folded(d.user_name) RETURNING d.*)
    INSERT INTO fairpost.activity_days AS d SELECT g.workspace, pg_temp.folded(g.user_name), g.day, sum(g.volume) FROM gone g GROUP BY 1, 2, 3
    ON CONFLICT (workspace, user_name, day) DO UPDATE SET volume = d.volume + excluded.volume;
    WITH gone AS (DELETE FROM fairpost.submissions s WHERE pg_temp.differs(s.user_name) AND s.user_name <> pg_temp.folded(s.user_name) RETURNING s.*)
    INSERT INTO fairpost.submissions AS s SELECT g.workspace, pg_temp.folded(g.user_name), g.hour, sum(g.n) FROM gone g GROUP BY 1, 2, 3
    ON CONFLICT (workspace, user_name, hour) DO UPDATE SET n = s.n + excluded.n;
    DROP FUNCTION pg_temp.folded(text);
    DROP FUNCTION pg_temp.differs(text);
END $$;
