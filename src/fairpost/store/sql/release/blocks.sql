-- Blocks. A block prevents a sender from using one account. Blocks are created by the account's worker. A block ends at its end time or when a person
-- lifts it. Every change to a block locks the account's lease, as every begin does. Once a block is committed, the account does not start sending any
-- more of the sender's e-mails.

-- Returns the workspaces that are blocked on this account now, at most a hundred.
CREATE OR REPLACE FUNCTION fairpost.blocked_on(p_account bigint, p_now timestamptz) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(SELECT b.workspace FROM fairpost.blocks b WHERE b.account_id = p_account AND b.until > p_now);
END $$;

-- Returns the roots of these routes, for every class and lane. The roots are looked up by their keys, because there may be many other roots.
CREATE OR REPLACE FUNCTION fairpost.roots_on(routes text[]) RETURNS SETOF bigint
LANGUAGE sql STABLE AS $$
    SELECT n.id FROM unnest(routes) r(route), unnest(enum_range(NULL::fairpost.email_class)) c(class), unnest(fairpost.lane_names()) l(lane), fairpost.nodes n
    WHERE n.parent = 0 AND n.key = fairpost.root_key(r.route, c.class, l.lane)
$$;

-- Blocks a workspace from using the account. Returns false if the lease is gone, or if the account already has the maximum number of blocks. An
-- existing block that lasts longer is kept.
CREATE OR REPLACE FUNCTION fairpost.block(
    p_account bigint, p_epoch bigint, p_workspace text, p_until timestamptz, p_reason text, p_params jsonb, p_now timestamptz DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    blocks_max CONSTANT integer := 100;   -- per account, because every claim skips the blocked senders
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    PERFORM FROM fairpost.leases l WHERE l.account_id = p_account AND l.epoch = p_epoch ORDER BY l.step DESC LIMIT 1 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM fairpost.end_blocks(p_account, ARRAY(SELECT b.workspace FROM fairpost.blocks b WHERE b.account_id = p_account AND b.until <= t), t);
    IF (SELECT count(*) FROM fairpost.blocks b WHERE b.account_id = p_account AND b.workspace <> p_workspace) >= blocks_max THEN
        RETURN false;
    END IF;
    INSERT INTO fairpost.blocks AS b (account_id, workspace, since, until, reason, params) VALUES (p_account, p_workspace, t, p_until, p_reason, p_params)
    ON CONFLICT (account_id, workspace) DO UPDATE SET until = excluded.until, reason = excluded.reason, params = excluded.params
    WHERE b.until < excluded.until;
    IF FOUND THEN
        INSERT INTO fairpost.events (at, kind, workspace, subject, detail)
        SELECT t, 'blocked', a.workspace, a.name, jsonb_build_object('sender', p_workspace, 'until', p_until, 'reason', p_reason) || p_params
        FROM fairpost.accounts a WHERE a.id = p_account;
    END IF;
    RETURN true;
END $$;

-- Unblocks one sender or (null) all senders on the account. Returns the senders that were blocked, or null if there is no such account.
CREATE OR REPLACE FUNCTION fairpost.unblock(p_name text, p_workspace text, p_now timestamptz DEFAULT NULL) RETURNS text[]
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    account bigint;
    t timestamptz;
    blocked text[];
BEGIN
    SELECT l.account_id INTO account FROM fairpost.leases l JOIN fairpost.accounts a ON a.id = l.account_id WHERE a.name = p_name FOR UPDATE OF l;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    t := coalesce(p_now, clock_timestamp());
    blocked := ARRAY(SELECT b.workspace FROM fairpost.blocks b WHERE b.account_id = account AND b.workspace = coalesce(p_workspace, b.workspace) ORDER BY 1);
    PERFORM fairpost.end_blocks(account, blocked, t);
    RETURN blocked;
END $$;

-- Ends these blocks. The caller has locked the lease row. Also resets the counts, because otherwise the next e-mail could cause the senders to be
-- blocked again.
CREATE OR REPLACE FUNCTION fairpost.end_blocks(p_account bigint, p_workspaces text[], p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_workspaces = '{}' THEN
        RETURN;
    END IF;
    DELETE FROM fairpost.blocks b WHERE b.account_id = p_account AND b.workspace = ANY (p_workspaces);
    UPDATE fairpost.counters d SET sent = 0, bounced = 0, refused = 0, refused_since = NULL, streak = 0, refusal = NULL
    WHERE d.account_id = p_account AND d.workspace = ANY (p_workspaces);
    INSERT INTO fairpost.events (at, kind, workspace, subject, detail)
    SELECT p_now, 'unblocked', a.workspace, a.name, jsonb_build_object('sender', w.name)
    FROM fairpost.accounts a, unnest(p_workspaces) w(name) WHERE a.id = p_account;
END $$;

-- Starts a new sample because the account was resumed. From then on, only later outcomes count. The caller has locked the lease row.
CREATE OR REPLACE FUNCTION fairpost.begin_sample(p_account bigint) RETURNS void
LANGUAGE sql AS $$
    UPDATE fairpost.leases l SET sample = l.sample + 1 WHERE l.account_id = p_account
$$;

-- Adds outcomes to each sender's counts. Returns the figures needed to decide what to block, or no row if no e-mail bounced or was refused.
-- `suspects` are senders that have bounces or refusals and are not blocked yet. `others_sent` is the number of e-mails that all other senders sent
-- today. `senders` is the number of senders that were served in this sample or have due mail for this account (2 means two or more). The caller has
-- locked the lease row.
CREATE OR REPLACE FUNCTION fairpost.count_outcomes(lease fairpost.leases, p_outcomes jsonb, p_now timestamptz)
RETURNS TABLE (suspects jsonb, others_sent integer, senders integer, blocks integer)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    account CONSTANT bigint := lease.account_id;
    today CONSTANT timestamptz := lease.day_started_at;
    mark bigint := lease.accepts;
BEGIN
    PERFORM fairpost.end_blocks(account, ARRAY(SELECT b.workspace FROM fairpost.blocks b WHERE b.account_id = account AND b.until <= p_now), p_now);
    -- A refusal is recorded immediately, so all other e-mails in the same record were accepted earlier.
    IF EXISTS (SELECT FROM jsonb_to_recordset(p_outcomes) o(sent integer) WHERE o.sent > 0) THEN
        mark := mark + 1;
        UPDATE fairpost.leases l SET accepts = mark WHERE l.account_id = account AND l.step = lease.step;
    END IF;
    WITH told AS MATERIALIZED (
        SELECT o.*, newest.spot
        FROM (SELECT o.workspace, sum(o.handled)::integer AS handled, sum(o.bounces)::integer AS bounces, sum(o.sent) AS accepted, coalesce(sum(o.refused), 0)::integer AS refused,
                     left(max(o.refusal), 500) AS refusal
              FROM jsonb_to_recordset(p_outcomes) o(workspace text, handled integer, bounces integer, sent integer, refused integer, refusal text) GROUP BY o.workspace) o
        LEFT JOIN LATERAL (
            SELECT d.ctid AS spot FROM fairpost.counters d WHERE d.account_id = account AND d.workspace = o.workspace ORDER BY d.turn DESC LIMIT 1) newest ON true
    ), added AS (
        UPDATE fairpost.counters d SET
            day = today,
            sent = o.handled + CASE WHEN (d.day, d.sample) = (today, lease.sample) THEN d.sent ELSE 0 END,
            bounced = o.bounces + CASE WHEN (d.day, d.sample) = (today, lease.sample) THEN d.bounced ELSE 0 END,
            accepted = d.accepted + o.accepted,
            sample = lease.sample,
            (refused, refused_since, refused_mark) = (
                SELECT o.refused + CASE WHEN goes_on THEN d.refused ELSE 0 END,
                       CASE WHEN goes_on THEN d.refused_since WHEN o.refused > 0 THEN p_now END, CASE WHEN goes_on THEN d.refused_mark ELSE mark END
                FROM (SELECT o.accepted = 0 AND d.sample = lease.sample AND d.refused > 0 AS goes_on) x),
            streak = o.refused + CASE WHEN d.sample = lease.sample AND d.streak_mark = mark THEN d.streak ELSE 0 END,
            streak_mark = mark,
            refusal = coalesce(o.refusal, d.refusal),
            turn = d.turn + 1
        FROM told o WHERE d.ctid = o.spot
    )
    INSERT INTO fairpost.counters (account_id, workspace, day, sent, bounced, since, accepted, sample, refused, refused_since, refused_mark, streak, streak_mark, refusal)
    SELECT account, o.workspace, today, o.handled, o.bounces, p_now, o.accepted, lease.sample,
           o.refused, CASE WHEN o.refused > 0 THEN p_now END, mark, o.refused, mark, o.refusal
    FROM told o WHERE o.spot IS NULL;

    IF (SELECT true FROM fairpost.counters d WHERE d.account_id = account AND d.sample = lease.sample AND (d.bounced > 0 OR d.refused > 0) ORDER BY d.turn DESC LIMIT 1) IS NULL THEN
        RETURN;   -- the usual case: the index of senders with bounces or refusals is empty
    END IF;
    RETURN QUERY
    WITH served AS MATERIALIZED (
        SELECT d.*, EXISTS (SELECT FROM fairpost.blocks b WHERE b.account_id = account AND b.workspace = d.workspace) AS is_blocked
        FROM fairpost.counters_of(account) d WHERE d.sample = lease.sample
    ), troubled AS MATERIALIZED (
        SELECT d.workspace, CASE WHEN d.day = today THEN d.sent ELSE 0 END AS sent, CASE WHEN d.day = today THEN d.bounced ELSE 0 END AS bounced,
               d.refused, d.refused_since, d.refused_mark = mark AS is_unbroken, CASE WHEN d.streak_mark = mark THEN d.streak ELSE 0 END AS streak,
               d.refusal, d.since, d.accepted
        FROM served d WHERE (d.bounced > 0 OR d.refused > 0) AND NOT d.is_blocked
    ), waiting AS MATERIALIZED (
        SELECT w.key FROM fairpost.accounts a CROSS JOIN LATERAL fairpost.roots_on(ARRAY[a.pool, '@' || a.name]) root(id)
        CROSS JOIN LATERAL (SELECT c.v FROM fairpost.node_state c WHERE c.id = root.id AND c.parent = 0 ORDER BY c.v DESC LIMIT 1) now_at
        CROSS JOIN LATERAL (
            SELECT c.key FROM fairpost.node_state c WHERE c.parent = root.id AND c.busy > 0 AND c.held_until IS NULL AND c.vtime >= now_at.v ORDER BY c.vtime LIMIT 2) w
        WHERE a.id = account
    )
    SELECT (SELECT jsonb_agg(to_jsonb(x)) FROM troubled x WHERE x.bounced > 0 OR x.refused > 0),
           (SELECT coalesce(sum(d.sent), 0)::integer FROM served d
            WHERE d.day = today AND NOT d.is_blocked AND d.workspace NOT IN (SELECT x.workspace FROM troubled x)),
           (SELECT least(2, count(*))::integer FROM ((SELECT d.workspace FROM served d LIMIT 2) UNION SELECT w.key FROM waiting w) x),
           (SELECT count(*)::integer FROM fairpost.blocks b WHERE b.account_id = account)
    WHERE EXISTS (SELECT FROM troubled x WHERE x.bounced > 0 OR x.refused > 0);
END $$;

-- Returns each sender's counts on an account. Skips from one sender to the next in the index and reads the newest version of each.
CREATE OR REPLACE FUNCTION fairpost.counters_of(p_account bigint) RETURNS SETOF fairpost.counters
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE newest(counter) AS (
        (SELECT d FROM fairpost.counters d WHERE d.account_id = p_account ORDER BY d.workspace DESC, d.turn DESC LIMIT 1)
        UNION ALL
        SELECT (SELECT d FROM fairpost.counters d WHERE d.account_id = p_account AND d.workspace < (n.counter).workspace ORDER BY d.workspace DESC, d.turn DESC LIMIT 1)
        FROM newest n WHERE (n.counter).workspace IS NOT NULL
    )
    SELECT (n.counter).* FROM newest n WHERE (n.counter).workspace IS NOT NULL
$$;

-- Returns accounts that are prevented from sending only by blocks, because all mail that is due on their routes comes from blocked senders. The cost
-- depends on the number of accounts with blocks and on the number of blocks.
CREATE OR REPLACE FUNCTION fairpost.accounts_blocked_for_all(p_now timestamptz DEFAULT NULL) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    RETURN QUERY
    SELECT a.id FROM (SELECT b.account_id, array_agg(b.workspace) AS names FROM fairpost.blocks b WHERE b.until > t GROUP BY 1) b
    JOIN fairpost.accounts a ON a.id = b.account_id
    WHERE NOT EXISTS (SELECT FROM fairpost.unread() n WHERE n.route IN (a.pool, '@' || a.name) AND n.due_at <= t AND n.workspace <> ALL (b.names))
    AND NOT EXISTS (
        SELECT FROM fairpost.roots_on(ARRAY[a.pool, '@' || a.name]) root(id) JOIN fairpost.node_state c ON c.parent = root.id
        WHERE c.busy > 0 AND c.held_until IS NULL AND c.key <> ALL (b.names))
    AND NOT EXISTS (
        SELECT FROM fairpost.node_state c JOIN fairpost.nodes n ON n.id = c.id
        WHERE c.route IN (a.pool, '@' || a.name) AND (c.wake_at <= t OR c.held_until <= t) AND n.workspace <> ALL (b.names));
END $$;
