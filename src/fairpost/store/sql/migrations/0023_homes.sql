-- A user has one place in the flow tree, whatever From domains they use. New tables only: nobody who enqueues waits for this.

-- The domain below which a user hangs. Decided when their first mail is staged; one that is given beats the one found.
CREATE TABLE fairpost.homes (
    workspace  text NOT NULL,
    user_name  text NOT NULL,
    is_given   boolean NOT NULL,               -- by set_sender; apart from what staging finds, so that neither waits for the other
    domain     text NOT NULL,
    is_proven  boolean NOT NULL,               -- the workspace has shown the domain to be its own, or somebody said so
    is_settled boolean NOT NULL DEFAULT true,  -- false: leaves of this user may still hang elsewhere
    PRIMARY KEY (workspace, user_name, is_given)
);
CREATE INDEX homes_to_settle ON fairpost.homes (workspace, user_name) WHERE NOT is_settled;
ALTER TABLE fairpost.homes ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.homes USING (workspace = (SELECT current_setting('fairpost.workspace', true)));

-- What the e-mails of a leaf have in common. A leaf from before homes has no row: its From domain is the one it hangs below, and its key is its stream.
CREATE TABLE fairpost.leaves (
    node      bigint PRIMARY KEY REFERENCES fairpost.nodes ON DELETE CASCADE,
    workspace text NOT NULL,
    home      text NOT NULL,                   -- the domain it hangs below
    domain    text NOT NULL,                   -- the one in From
    stream    text NOT NULL
);
CREATE INDEX leaves_by_domain ON fairpost.leaves (workspace, domain);
CREATE INDEX leaves_by_stream ON fairpost.leaves (workspace, stream);
CREATE INDEX leaves_away ON fairpost.leaves (workspace) WHERE domain <> home;
ALTER TABLE fairpost.leaves ENABLE ROW LEVEL SECURITY;

-- A hold of a domain is a matter of its leaves from now on: others may have users at home in it who write in the name of other domains.
DO $$
DECLARE
    t CONSTANT timestamptz := clock_timestamp();
    d record;
    below bigint[];
    stopped bigint[];
BEGIN
    IF NOT EXISTS (SELECT FROM fairpost.rules r WHERE r.level = 'domain' AND greatest(r.held_until, r.throttled_until) > t) THEN
        RETURN;
    END IF;
    FOR d IN
        SELECT r.workspace, r.key, greatest(r.held_until, r.throttled_until) AS until FROM fairpost.rules r
        WHERE r.level = 'domain' AND greatest(r.held_until, r.throttled_until) > t ORDER BY 1, 2
    LOOP
        PERFORM fairpost.lock_named(d.workspace, 'domain', d.key);
        below := ARRAY(SELECT leaf.id FROM fairpost.nodes n JOIN fairpost.nodes u ON u.parent = n.id JOIN fairpost.nodes leaf ON leaf.parent = u.id
                       WHERE n.workspace = d.workspace AND n.level = 'domain' AND n.key = d.key);
        stopped := ARRAY(SELECT c.id FROM fairpost.clocks c WHERE c.id = ANY (below) AND c.busy > 0 AND c.held_until IS NULL);
        UPDATE fairpost.clocks c SET held_until = greatest(c.held_until, d.until) WHERE c.id = ANY (below);
        PERFORM fairpost.deactivate(stopped);   -- the domain's own node is held, and so nothing changes above it
        UPDATE fairpost.clocks c SET held_until = NULL FROM fairpost.nodes n
        WHERE n.workspace = d.workspace AND n.level = 'domain' AND n.key = d.key AND c.id = n.id;
    END LOOP;
END $$;

-- What is still to be planned goes to the new leaves, as base/ids.sql hashes them.
UPDATE fairpost.campaign_streams s
SET flow = encode(substring(sha256(convert_to(concat_ws(E'\x1f', 'home', c.route, 'bulk', s.workspace, '', c.user_name, s.stream), 'UTF8')) FOR 16), 'hex')::uuid
FROM fairpost.campaigns c WHERE c.id = s.campaign_id;
