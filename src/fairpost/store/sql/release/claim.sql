-- The fair claim selects the e-mails that an account sends next. It is start-time fair queueing over the flow tree, level by level, in O(batch). The
-- cost depends neither on the number of waiting e-mails nor on the number of senders. `policy/fairness.py` is the specification. It is the same
-- algorithm in plain Python, one e-mail at a time and without locks. Tests compare the two.
--
-- The tree: root (a route and a class) → workspace → domain → user → leaf (a stream). Each node has a weight, the number of e-mails waiting below it, and a
-- virtual time `vtime`: the number of e-mails served, divided by its weight. A node is active while an e-mail below it is due and the node is not
-- held. A parent's `v` is the virtual time that its children have reached. Scans begin there, and a child that becomes active starts there, so an
-- inactive child gains no credit.
--
-- The steps, each in a separate file:
--   claim.sql      1  check the lease, the account and the pause; absorb arrivals (stage.sql)
--                  2  urgent mail first, but a tenth of the turns for bulk; then lane by lane (lanes.sql)
--   pick.sql       3  in each lane, in rounds until the batch is full: choose leaves, take from them
--   choose.sql     4  lock the workspaces that are next, and share the batch out among them, their domains, users and leaves
--   share_out.sql  5  share out one level
--   fifo.sql       4' or, outside the fair queue, the leaves with the oldest e-mails
--   take.sql       6  lock the e-mails, settle those that must not be sent, charge the path, mark the rest as claimed
--
-- A worked example: one level, four e-mails to share out. Columns: virtual time, weight, waiting e-mails, then the place of each e-mail. The places of a
-- child are 1/weight apart. The earliest places (*) are served:
--
--              vtime  weight  waiting   places                        gets   vtime afterwards
--   acme        10.0     1       5      10.0* 11.0* 12.0  13.0         2     12.0
--   bolt        10.5     2       9      10.5* 11.0* 11.5  12.0  12.5   2     11.5
--   cato        13.0     1      40      13.0  14.0                     0     13.0
--
-- The four earliest places are acme 10.0, bolt 10.5, acme 11.0 and bolt 11.0. cato has been served most and waits until the others reach 13.0. A million
-- e-mails waiting at cato would change nothing. The e-mails of each child are then shared out among its domains in the same way, and so on.
--
-- Locks: workspaces are locked with SKIP LOCKED, so claims on one route do not wait for each other. The lock of a workspace protects everything below
-- it. Rows are locked first and then read in a separate statement, because under READ COMMITTED, only a new statement sees the commit of the previous
-- lock holder.

-- Stages and claims in one round trip. If nothing was claimed, `again` means that other claims held all mail, so the worker must check again before it
-- sleeps. Otherwise `next_at` is when the next e-mail becomes due. `verdict` is `ok` or one of these:
--   stale      the lease is gone: stop at once
--   inactive   the account may not send now
--   changed    the account's settings have changed: start over
--   paused     all sending is paused; `next_at` is the end of the pause, or null if it lasts until resumed
CREATE OR REPLACE FUNCTION fairpost.claim(
    p_account bigint, p_epoch bigint, p_limit integer, p_now timestamptz DEFAULT NULL,
    OUT verdict text, OUT ids bigint[], OUT again boolean, OUT next_at timestamptz
)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan SET enable_bitmapscan = off AS $$
DECLARE
    t timestamptz;
    lease fairpost.leases;
    account fairpost.accounts;
    routes text[];
    f fairpost.fairness;
    got record;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'claim: needs the isolation level read committed, got %', current_setting('transaction_isolation')
            USING ERRCODE = 'FP002', HINT = 'Unset default_transaction_isolation for the role that Fairpost uses.';
    END IF;
    ids := '{}';
    again := false;
    SELECT * INTO lease FROM fairpost.leases l WHERE l.account_id = p_account ORDER BY l.step DESC LIMIT 1 FOR NO KEY UPDATE;
    t := coalesce(p_now, clock_timestamp());
    IF lease.epoch IS DISTINCT FROM p_epoch OR lease.until <= t THEN
        verdict := 'stale';
        RETURN;
    ELSIF lease.server IS DISTINCT FROM pg_postmaster_start_time() THEN
        verdict := 'unconfirmed';
        RETURN;
    END IF;
    SELECT * INTO account FROM fairpost.accounts a WHERE a.id = p_account;
    IF account.status <> 'active' OR account.revision <> lease.revision THEN
        verdict := CASE WHEN account.status <> 'active' THEN 'inactive' ELSE 'changed' END;
        RETURN;
    END IF;
    routes := ARRAY[account.pool, '@' || account.name];
    SELECT nullif(p.until, 'infinity') INTO next_at FROM fairpost.pauses p WHERE p.everything AND p.until > t;
    IF FOUND THEN
        verdict := 'paused';
        RETURN;
    END IF;
    verdict := 'ok';
    -- If a claim is lost when the server crashes, its e-mails simply go back to the queue, because the begin comes later and is durable. The commit
    -- is therefore asynchronous, so that no transaction waits for the disk while a workspace is locked.
    PERFORM set_config('synchronous_commit', 'off', true);

    again := fairpost.absorb_arrivals(routes, t);
    SELECT * INTO f FROM fairpost.fairness;
    got := fairpost.pick_classes(routes, f, array_fill(p_account, ARRAY[p_limit]), array_fill(p_epoch, ARRAY[p_limit]), p_limit, fairpost.blocked_on(p_account, t), t,
        lease.urgent_run, lease.lanes_served);
    again := again OR got.skipped;
    ids := got.ids;
    IF got.urgent_run <> lease.urgent_run OR got.served <> lease.lanes_served THEN
        UPDATE fairpost.leases l SET urgent_run = got.urgent_run, lanes_served = got.served WHERE l.account_id = p_account AND l.step = lease.step;
    END IF;
    IF cardinality(ids) = 0 AND NOT again THEN
        next_at := least(fairpost.next_moment(routes), (SELECT nullif(min(b.until), 'infinity') FROM fairpost.blocks b WHERE b.account_id = p_account AND b.until > t));
    END IF;
END $$;

-- Urgent mail is served first, and bulk mail gets a tenth of the turns. `urgent_run` is the number of urgent e-mails since the last bulk e-mail.
-- `served` is the number of e-mails served from each lane.
CREATE OR REPLACE FUNCTION fairpost.pick_classes(
    routes text[], f fairpost.fairness, for_account bigint[], for_epoch bigint[], p_limit integer, blocked text[], p_now timestamptz,
    INOUT urgent_run integer, INOUT served double precision[], OUT ids bigint[], OUT skipped boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    open boolean[] := '{f,f,f,f,f}';
    for_bulk CONSTANT integer := least(p_limit, (urgent_run + p_limit) / 10);
    got record;
    urgent integer;
    bulk integer;
BEGIN
    got := fairpost.pick_by_lanes(routes, 'urgent', f, for_account, for_epoch, 0, p_limit - for_bulk, blocked, p_now, served, open);
    skipped := got.skipped;
    ids := got.ids;
    urgent := cardinality(got.ids);
    got := fairpost.pick_by_lanes(routes, 'bulk', f, for_account, for_epoch, urgent, p_limit - urgent, blocked, p_now, got.served, got.open);
    skipped := skipped OR got.skipped;
    bulk := cardinality(got.ids);
    ids := ids || got.ids;
    IF urgent = p_limit - for_bulk AND bulk < for_bulk THEN
        got := fairpost.pick_by_lanes(routes, 'urgent', f, for_account, for_epoch, urgent + bulk, for_bulk - bulk, blocked, p_now, got.served, got.open);
        ids := ids || got.ids;   -- in the order in which they were assigned
        urgent := urgent + cardinality(got.ids);
    END IF;
    served := fairpost.carry_over(got.served, got.open);
    urgent_run := least(9, greatest(0, urgent_run + urgent - 9 * bulk));
END $$;

-- Claims once for many accounts of a pool that one process drives. Available e-mails are shared out among the accounts in turn, so that each account
-- gets some of every sender's mail. `p_limits` is the maximum number of e-mails for each account. An account is missing from the result, and must
-- claim alone, if its lease is invalid or locked, if it may not send now, if it has blocked senders, or if mail is waiting that only this account may
-- send.
CREATE OR REPLACE FUNCTION fairpost.claim_group(
    p_pool text, p_accounts bigint[], p_epochs bigint[], p_limits integer[], p_now timestamptz DEFAULT NULL
) RETURNS TABLE (account bigint, ids bigint[], again boolean, next_at timestamptz)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan SET enable_bitmapscan = off AS $$
DECLARE
    t timestamptz;
    f fairpost.fairness;
    done text;
    is_behind boolean;
    leader bigint;           -- its lease stores the credit of bulk mail and of the lanes; null if steps hold all leases, and the credit stays as it is
    lease fairpost.leases;
    served_ids bigint[];     -- the participating accounts, and their leases
    epochs bigint[];
    names text[];
    busy_alone text[];       -- accounts with waiting mail that no other account may send
    slot_account bigint[];   -- the account that gets each e-mail
    slot_epoch bigint[];
    got record;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'claim_group: needs the isolation level read committed, got %', current_setting('transaction_isolation') USING ERRCODE = 'FP002';
    END IF;
    SELECT k.account INTO leader FROM (SELECT * FROM unnest(p_accounts) WITH ORDINALITY k(account, place) ORDER BY k.place) k
    CROSS JOIN LATERAL (SELECT FROM fairpost.leases l WHERE l.account_id = k.account ORDER BY l.step DESC LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) l LIMIT 1;
    served_ids := ARRAY(
        SELECT k.account FROM (SELECT * FROM unnest(p_accounts) k(account) ORDER BY k.account) k
        CROSS JOIN LATERAL (SELECT FROM fairpost.leases l WHERE l.account_id = k.account ORDER BY l.step DESC LIMIT 1 FOR KEY SHARE SKIP LOCKED) l);
    t := coalesce(p_now, clock_timestamp());
    IF EXISTS (SELECT FROM fairpost.pauses p WHERE p.everything AND p.until > t) THEN
        RETURN;
    END IF;
    -- Locks first, then reads.
    SELECT array_agg(l.account_id), array_agg(l.epoch), array_agg(a.name) INTO served_ids, epochs, names
    FROM unnest(p_accounts, p_epochs) k(account, epoch)
    CROSS JOIN LATERAL (SELECT * FROM fairpost.leases l WHERE l.account_id = k.account ORDER BY l.step DESC LIMIT 1) l
    JOIN fairpost.accounts a ON a.id = k.account
    WHERE k.account = ANY (served_ids) AND l.epoch = k.epoch AND l.until > t AND l.server = pg_postmaster_start_time()
    AND a.status = 'active' AND a.revision = l.revision AND a.pool = p_pool
    AND NOT EXISTS (SELECT FROM fairpost.blocks b WHERE b.account_id = k.account AND b.until > t);
    IF served_ids IS NULL THEN
        RETURN;
    END IF;
    done := set_config('synchronous_commit', 'off', true);   -- same as in claim
    is_behind := fairpost.absorb_arrivals(p_pool || ARRAY(SELECT '@' || n.name FROM unnest(names) n(name)), t);
    busy_alone := fairpost.with_pinned_work(names);
    IF busy_alone <> '{}' THEN
        SELECT array_agg(k.account), array_agg(k.epoch), array_agg(k.name) INTO served_ids, epochs, names
        FROM unnest(served_ids, epochs, names) k(account, epoch, name) WHERE k.name <> ALL (busy_alone);
    END IF;
    IF served_ids IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(s.account ORDER BY s.nth, s.account), array_agg(s.epoch ORDER BY s.nth, s.account) INTO slot_account, slot_epoch
    FROM (SELECT k.account, k.epoch, n.nth FROM unnest(served_ids, epochs) k(account, epoch) JOIN unnest(p_accounts, p_limits) w(account, most) USING (account)
          CROSS JOIN LATERAL generate_series(1, w.most) n(nth)) s;
    SELECT * INTO f FROM fairpost.fairness;
    SELECT * INTO lease FROM fairpost.leases l WHERE l.account_id = coalesce(leader, served_ids[1]) ORDER BY l.step DESC LIMIT 1;
    got := fairpost.pick_classes(ARRAY[p_pool], f, slot_account, slot_epoch, cardinality(slot_account), '{}', t, lease.urgent_run, lease.lanes_served);
    IF got.urgent_run <> lease.urgent_run OR got.served <> lease.lanes_served THEN
        UPDATE fairpost.leases l SET urgent_run = got.urgent_run, lanes_served = got.served WHERE l.account_id = leader AND l.step = lease.step;
    END IF;
    RETURN QUERY
    SELECT k.account, coalesce(c.ids, '{}'), is_behind OR got.skipped,
           CASE WHEN c.ids IS NULL AND NOT (is_behind OR got.skipped) THEN fairpost.next_moment(ARRAY[p_pool, '@' || k.name]) END
    FROM unnest(served_ids, names) k(account, name)
    LEFT JOIN (SELECT slot_account[i.place] AS account, array_agg(i.id ORDER BY i.place) AS ids FROM unnest(got.ids) WITH ORDINALITY i(id, place) GROUP BY 1) c USING (account);
END $$;

-- Returns the accounts with due mail that no other account may send.
CREATE OR REPLACE FUNCTION fairpost.with_pinned_work(accounts text[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    classes CONSTANT fairpost.email_class[] := enum_range(NULL::fairpost.email_class);
    lanes CONSTANT text[] := fairpost.lane_names();
BEGIN
    RETURN ARRAY(
        SELECT a.name FROM unnest(accounts) a(name) WHERE EXISTS (
            SELECT FROM unnest(classes) c(class) CROSS JOIN unnest(lanes) l(lane) CROSS JOIN LATERAL (SELECT fairpost.root_key('@' || a.name, c.class, l.lane) AS key) k
            CROSS JOIN LATERAL (SELECT n.id FROM fairpost.nodes n WHERE (n.parent, n.key) BETWEEN (0, k.key) AND (0, k.key) LIMIT 1) n   -- same as in roots_of
            CROSS JOIN LATERAL (SELECT s.v FROM fairpost.node_state s WHERE s.id = n.id AND s.parent = 0 ORDER BY s.v DESC LIMIT 1) r
            CROSS JOIN LATERAL (SELECT FROM fairpost.node_state s WHERE s.parent = n.id AND s.busy > 0 AND s.held_until IS NULL AND s.vtime >= r.v LIMIT 1) s));
END $$;
