-- The fair claim. Which e-mails may this account send next? Start-time fair queueing over the flow tree, level by level, in O(batch): the cost depends
-- neither on how many e-mails wait nor on how many senders there are. `policy/fairness.py` is the specification: the same in plain Python, one e-mail at
-- a time and without locks. Tests compare the two.
--
-- The tree: root (a route and a class) → workspace → domain → user → leaf (a stream). Each node has a weight, the number of e-mails waiting below it, and a
-- virtual time `vtime`: what it has been served, divided by its weight. A node is active while something below it is due and it is not held. `v` of a parent
-- is the virtual time its children have reached. Scans begin there, and a child that wakes up joins there: sleeping earns no credit.
--
-- The steps, a file each:
--   claim.sql      1  check the lease, the account and the pause; absorb what has arrived (stage.sql)
--                  2  urgent mail first, a tenth of the turns for bulk; then lane by lane (lanes.sql)
--   pick.sql       3  in each lane, in rounds until the batch is full: choose leaves, take from them
--   choose.sql     4  lock the workspaces whose turn it is, and share the batch out among them, their domains, users and leaves
--   share_out.sql  5  one level of that
--   fifo.sql       4' or, outside the fair queue, the leaves with the oldest e-mails
--   take.sql       6  lock the e-mails, settle what may never be sent, charge the path, mark the rest as claimed
--
-- A worked example, one level, four e-mails to share out. Columns: virtual time, weight, waiting; then the places each would stand at with every e-mail more
-- (1/weight apart), earliest places first:
--
--              vtime  weight  waiting   places                        gets   vtime afterwards
--   acme        10.0     1       5      10.0* 11.0* 12.0  13.0         2     12.0
--   bolt        10.5     2       9      10.5* 11.0* 11.5  12.0  12.5   2     11.5
--   cato        13.0     1      40      13.0  14.0                     0     13.0
--
-- The four earliest places are acme 10.0, bolt 10.5, acme 11.0 and bolt 11.0. cato has been served most and waits; by the time the others reach 13.0 it is
-- its turn again. A million e-mails waiting at cato would change nothing. Each one's quota is shared out among its domains in the same way, and so on.
--
-- Locks: workspaces are locked with SKIP LOCKED, so claims of one route do not wait for each other; everything below a workspace is protected by its lock.
-- Lock first, look after, each in a statement of its own: under READ COMMITTED only a new statement sees what the last holder of a lock committed.

-- Stage and claim in one round trip. `verdict`: ok, stale (the lease is gone: stop at once), inactive (the account may
-- not send now), changed (it has other settings by now: begin anew) or paused (nobody may; `next_at` is when that ends, null: when somebody resumes). When nothing came, `again` says that others held what there is: look again before sleeping; else
-- `next_at` is the next moment something becomes due.
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
    served double precision[];
    open boolean[] := '{f,f,f,f,f}';
    for_bulk integer;
    got record;
    urgent_ids bigint[];
    bulk_ids bigint[];
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
    -- A claim that a crash of the server forgets does no harm: the e-mails just wait again, for begin is durable and
    -- comes after. So nobody has to wait for the disk while a workspace is locked.
    PERFORM set_config('synchronous_commit', 'off', true);

    again := fairpost.absorb_arrivals(routes, t);
    SELECT * INTO f FROM fairpost.fairness;
    served := lease.lanes_served;

    -- Urgent goes first, and bulk keeps a tenth; the account remembers what it owes it.
    for_bulk := least(p_limit, (lease.urgent_run + p_limit) / 10);
    got := fairpost.pick_by_lanes(routes, 'urgent', f, p_account, p_epoch, p_limit - for_bulk, t, served, open);
    again := again OR got.skipped;
    urgent_ids := got.ids;
    got := fairpost.pick_by_lanes(routes, 'bulk', f, p_account, p_epoch, p_limit - cardinality(urgent_ids), t, got.served, got.open);
    again := again OR got.skipped;
    bulk_ids := got.ids;
    IF cardinality(urgent_ids) = p_limit - for_bulk AND cardinality(bulk_ids) < for_bulk THEN
        got := fairpost.pick_by_lanes(routes, 'urgent', f, p_account, p_epoch, for_bulk - cardinality(bulk_ids), t, got.served, got.open);
        urgent_ids := urgent_ids || got.ids;
    END IF;
    ids := urgent_ids || bulk_ids;
    served := fairpost.carry_over(got.served, got.open);
    IF urgent_ids <> '{}' OR lease.urgent_run > 0 OR served <> lease.lanes_served THEN
        UPDATE fairpost.leases l SET
            urgent_run = least(9, greatest(0, l.urgent_run + cardinality(urgent_ids) - 9 * cardinality(bulk_ids))), lanes_served = served
        WHERE l.account_id = p_account AND l.step = lease.step;
    END IF;
    IF cardinality(ids) = 0 AND NOT again THEN
        next_at := least(fairpost.next_moment(routes), (SELECT nullif(min(b.until), 'infinity') FROM fairpost.blocks b WHERE b.account_id = p_account AND b.until > t));
    END IF;
END $$;
