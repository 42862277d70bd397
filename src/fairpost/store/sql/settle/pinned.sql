-- While an account is suspended, handles the mail that only this account can send. The mail waits for some time and then fails. Afterwards, it can be
-- retried.

-- Returns the flows of a route, from the tree and also from the arrivals that the tree has not absorbed, because nothing is staged for an account
-- that may not send.
CREATE OR REPLACE FUNCTION fairpost.flows_of(p_route text) RETURNS TABLE (flow uuid, class fairpost.email_class)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE below AS (
        SELECT n.id, n.flow, n.class FROM fairpost.nodes n WHERE n.parent = 0 AND n.route = p_route
        UNION ALL
        SELECT n.id, n.flow, n.class FROM below b JOIN fairpost.nodes n ON n.parent = b.id
    )
    SELECT b.flow, b.class FROM below b WHERE b.flow IS NOT NULL
    UNION
    SELECT a.flow, a.class FROM fairpost.arrivals a WHERE a.route = p_route
$$;

-- Fails the due e-mails of an account that has been suspended for the given time, with the reason `email.account_suspended`. The account's row is
-- locked, so that no e-mail fails while its account is being resumed. Held mail keeps waiting, and so does all mail while everything is paused.
-- Returns the number of e-mails that failed. If the number is `p_max`, call again.
CREATE OR REPLACE FUNCTION fairpost.give_up_pinned(p_max integer, p_now timestamptz DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    t CONSTANT timestamptz := coalesce(p_now, clock_timestamp());
    patience CONSTANT fairpost.patience := (SELECT p FROM fairpost.patience p);
    lost record;
    given_up bigint;
    n integer := 0;
BEGIN
    IF EXISTS (SELECT FROM fairpost.pauses p WHERE p.everything AND p.until > t) THEN
        RETURN 0;
    END IF;
    FOR lost IN
        SELECT a.id, '@' || a.name AS route, l.suspended_at FROM fairpost.accounts a JOIN fairpost.leases l ON l.account_id = a.id
        WHERE a.status = 'suspended' AND l.suspended_at <= t - least(patience.urgent, patience.bulk) ORDER BY a.id
    LOOP
        PERFORM FROM fairpost.accounts a WHERE a.id = lost.id AND a.status = 'suspended' FOR SHARE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        FOR given_up IN
            SELECT q.id FROM fairpost.flows_of(lost.route) f
            CROSS JOIN LATERAL (SELECT q.* FROM fairpost.queue q WHERE q.flow = f.flow AND q.waiting AND q.due_at <= t ORDER BY q.due_at LIMIT 1) one
            CROSS JOIN LATERAL (
                SELECT q.id FROM fairpost.queue q WHERE q.flow = f.flow AND q.waiting AND q.due_at <= t
                ORDER BY q.due_at, q.id LIMIT p_max FOR UPDATE SKIP LOCKED) q
            WHERE lost.suspended_at <= t - CASE f.class WHEN 'urgent' THEN patience.urgent ELSE patience.bulk END
            AND NOT fairpost.is_held(one.workspace, one.domain, one.user_name, one.stream, t) LIMIT p_max - n   -- all e-mails of a flow have the same sender
        LOOP
            PERFORM fairpost.note(ARRAY[given_up], -1);
            PERFORM fairpost.finish(given_up, 'failed', 'email.account_suspended', t);
            n := n + 1;
        END LOOP;
        EXIT WHEN n >= p_max;
    END LOOP;
    RETURN n;
END $$;

-- Retries up to `p_max` of one workspace's failed e-mails, starting after the id `p_after`. E-mails that failed for one of these reasons go back to
-- the queue, unless their account is still suspended or is gone. Continue after `last`; if it is null, there are no more. With `p_is_dry`, nothing is
-- changed.
DROP FUNCTION IF EXISTS fairpost.retry_failed(text, text, text, bigint, integer, boolean, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.retry_failed(
    p_workspace text, p_reasons text[], p_route text, p_after bigint, p_max integer, p_is_dry boolean, p_now timestamptz DEFAULT NULL,
    OUT retried integer, OUT still_suspended integer, OUT last bigint
)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    email record;
    seen integer := 0;
BEGIN
    retried := 0;
    still_suspended := 0;
    FOR email IN
        SELECT e.id, e.reason, e.route, left(e.route, 1) = '@' AND NOT EXISTS (
                   SELECT FROM fairpost.accounts a WHERE e.route = '@' || a.name AND a.status <> 'suspended') AS is_lost
        FROM fairpost.emails e WHERE e.workspace = p_workspace AND e.state = 'failed' AND e.id > p_after ORDER BY e.id LIMIT p_max
    LOOP
        seen := seen + 1;
        last := email.id;
        CONTINUE WHEN (email.reason = ANY (p_reasons)) IS NOT TRUE OR p_route IS NOT NULL AND email.route <> p_route;
        IF email.is_lost THEN
            still_suspended := still_suspended + 1;
        ELSIF p_is_dry OR fairpost.retry(email.id, p_now) = 'waiting' THEN
            retried := retried + 1;
        END IF;
    END LOOP;
    IF seen < p_max THEN
        last := NULL;
    END IF;
END $$;

-- Returns the workspaces that have failed e-mails. Skips from one workspace to the next in the index.
CREATE OR REPLACE FUNCTION fairpost.workspaces_with_failed() RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    reached text := '';
BEGIN
    LOOP
        reached := (SELECT e.workspace FROM fairpost.emails e WHERE e.workspace > reached AND e.state <> 'sent' ORDER BY e.workspace LIMIT 1);
        EXIT WHEN reached IS NULL;
        RETURN NEXT reached;
    END LOOP;
END $$;
