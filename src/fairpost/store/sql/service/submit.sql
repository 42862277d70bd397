-- Submissions by a workspace. The e-mails are sent in the workspace's own name, through its own accounts or accounts lent to it. Functions that run
-- for each e-mail are in PL/pgSQL, which keeps their plans, whereas SQL functions with subqueries are replanned in every statement.

-- Returns the route for a pool or account named by a workspace. The pool or account must be the workspace's own, or a pool that the operator has lent
-- to the workspace. Returns null if the workspace may not use any such route.
CREATE OR REPLACE FUNCTION fairpost.route_for(p_workspace text, p_pool text, p_account text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN CASE
        WHEN p_account IS NOT NULL THEN (SELECT '@' || a.name FROM fairpost.accounts a WHERE a.name = p_workspace || '/' || p_account)
        WHEN EXISTS (SELECT FROM fairpost.accounts a WHERE a.pool = p_workspace || '/' || coalesce(p_pool, 'default')) THEN p_workspace || '/' || coalesce(p_pool, 'default')
        ELSE (SELECT l.pool FROM fairpost.loans l WHERE l.workspace = p_workspace AND l.pool = coalesce(p_pool, 'default')) END;
END $$;

DROP FUNCTION IF EXISTS fairpost.may_send_through(text, text);

-- Returns whether a workspace's mail may be sent through a stored route from this address (null: the mail specifies no address and uses the account's
-- own). Through its own accounts, a workspace may use any proven address. Through one of the operator's pools, it may use the addresses that the loan
-- allows.
CREATE OR REPLACE FUNCTION fairpost.may_be_from(p_workspace text, p_route text, p_address text, p_now timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN CASE
        WHEN starts_with(p_route, p_workspace || '/') OR starts_with(p_route, '@' || p_workspace || '/')
            THEN p_address IS NULL OR fairpost.may_write_as(p_workspace, p_address, p_now)
        ELSE EXISTS (
            SELECT FROM fairpost.loans l, fairpost.normalize_address(p_address) given, split_part(given, '@', 2) domain
            WHERE l.workspace = p_workspace AND l.pool = p_route AND CASE
                WHEN p_address IS NULL THEN 'account' = ANY (l.senders)
                ELSE given = ANY (l.senders) OR 'proven' = ANY (l.senders) AND fairpost.may_write_as(p_workspace, p_address, p_now)
                    OR EXISTS (SELECT FROM unnest(l.senders) allowed WHERE strpos(allowed, '.') > 0 AND (domain = allowed OR right(domain, length(allowed) + 1) = '.' || allowed)) END) END;
END $$;

-- Returns whether an address belongs to the workspace. Proof comes from the address's domain, a parent domain, or a login to this mailbox. If logins
-- have failed for a week, the mailbox no longer counts as proof.
DROP FUNCTION IF EXISTS fairpost.may_write_as(text, text);
CREATE OR REPLACE FUNCTION fairpost.may_write_as(p_workspace text, p_address text, p_now timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN fairpost.proven_domain(p_workspace, split_part(p_address, '@', 2)) IS NOT NULL
        OR EXISTS (SELECT FROM fairpost.mailboxes m WHERE m.workspace = p_workspace AND m.address = fairpost.normalize_address(p_address)
                   AND coalesce(m.failed_since > coalesce(p_now, clock_timestamp()) - interval '7 days', true));
END $$;

-- Returns the route for an e-mail's `pool`, `account` and `from`, or the problem if the workspace may not use them. If their types are invalid, both are
-- null, and check_email reports the problem.
CREATE OR REPLACE FUNCTION fairpost.check_route(p_workspace text, e jsonb, p_now timestamptz, OUT route text, OUT wrong jsonb)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    sender jsonb;
    address text;
BEGIN
    IF jsonb_typeof(e -> 'pool') IS DISTINCT FROM 'string' AND e ->> 'pool' IS NOT NULL OR jsonb_typeof(e -> 'account') IS DISTINCT FROM 'string' AND e ->> 'account' IS NOT NULL
        OR e ->> 'pool' IS NOT NULL AND e ->> 'account' IS NOT NULL THEN
        RETURN;
    END IF;
    route := fairpost.route_for(p_workspace, e ->> 'pool', e ->> 'account');
    IF route IS NULL THEN
        wrong := CASE WHEN e ->> 'account' IS NOT NULL THEN fairpost.complaint('account', format('there is no account %s in this workspace', left(e ->> 'account', 100)))
                      ELSE fairpost.complaint('pool', format('there is no pool %s for this workspace', left(coalesce(e ->> 'pool', 'default'), 100))) END;
        RETURN;
    END IF;
    sender := CASE WHEN e ->> 'from' IS NOT NULL THEN fairpost.parse_sender(e -> 'from') END;
    address := sender ->> 'address';   -- also null if only a name is given
    IF (e ->> 'from' IS NULL OR sender IS NOT NULL) AND NOT fairpost.may_be_from(p_workspace, route, address, p_now) THEN   -- check_email reports invalid addresses
        wrong := fairpost.complaint('from', CASE
            WHEN address IS NULL THEN format('is required: mail through the operator''s pool %s is not sent in the operator''s name', route)
            WHEN strpos(route, '/') > 0 THEN format('%s is not a domain that this workspace has shown to be its own, nor a mailbox of its accounts', split_part(fairpost.normalize_address(address), '@', 2))
            ELSE format('%s is not allowed through the operator''s pool %s: see GET /v1/pools', address, route) END);
    END IF;
END $$;

-- Returns an e-mail as it will be enqueued: `e` with its workspace, route and user (the caller, if `e` names none). If the e-mail is invalid, returns the
-- problem instead. `p_route` and `p_wrong` are the result of check_route.
CREATE OR REPLACE FUNCTION fairpost.as_submitted(p_workspace text, e jsonb, p_caller text, p_route text, p_wrong jsonb, OUT email jsonb, OUT wrong jsonb)
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF jsonb_typeof(e) IS DISTINCT FROM 'object' OR e ?| '{workspace,content_id}' THEN
        wrong := CASE WHEN jsonb_typeof(e) IS DISTINCT FROM 'object' THEN fairpost.complaint('', 'must be an object')
                      WHEN e ? 'workspace' THEN fairpost.complaint('workspace', 'is determined by your key and must not be given')
                      ELSE fairpost.complaint('content_id', 'is not allowed in requests; use subject, text and html') END;
    ELSIF p_wrong IS NOT NULL THEN
        wrong := p_wrong;
    ELSIF p_route IS NULL THEN
        email := e || jsonb_build_object('workspace', p_workspace);   -- check_email validates it
    ELSIF fairpost.is_reserved_user(fairpost.normalize_user(e ->> 'user')) THEN
        wrong := fairpost.complaint('user', 'must not begin with key:, login: or person:, which are reserved for mail without a user');
    ELSE
        email := (e - '{pool,account}'::text[]) || CASE WHEN p_caller IS NOT NULL AND coalesce(fairpost.normalize_user(e ->> 'user'), '') = '' AND coalesce(jsonb_typeof(e -> 'user'), 'null') IN ('string', 'null')
            THEN jsonb_build_object('user', p_caller) ELSE '{}' END || jsonb_build_object('workspace', p_workspace,
            CASE WHEN left(p_route, 1) = '@' THEN 'account' ELSE 'pool' END, CASE WHEN left(p_route, 1) = '@' THEN substr(p_route, 2) ELSE p_route END);
    END IF;
END $$;

-- Checks the route of a single e-mail, and returns the e-mail as it will be enqueued or the problem.
DROP FUNCTION IF EXISTS fairpost.check_submission(text, jsonb);
CREATE OR REPLACE FUNCTION fairpost.check_submission(p_workspace text, e jsonb, p_caller text, p_now timestamptz, OUT email jsonb, OUT wrong jsonb)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    checked record := fairpost.check_route(p_workspace, e, p_now);
    submitted record := fairpost.as_submitted(p_workspace, e, p_caller, checked.route, checked.wrong);
BEGIN
    email := submitted.email;
    wrong := submitted.wrong;
END $$;

-- Does the same for an application's login. The e-mail must name a workspace if the login may act for several.
CREATE OR REPLACE FUNCTION fairpost.check_application(spoken_for text[], e jsonb, OUT email jsonb, OUT wrong jsonb)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    whose text;
BEGIN
    IF jsonb_typeof(e) IS DISTINCT FROM 'object' THEN
        RETURN;   -- reported by the checks for all e-mails
    END IF;
    whose := coalesce(e ->> 'workspace', fairpost.own_workspace(spoken_for));
    IF whose <> ALL (spoken_for) THEN
        wrong := fairpost.complaint('workspace', format('%s is not a workspace of this login', left(whose, 200)));
        RETURN;
    END IF;
    SELECT c.email || CASE WHEN e ? 'content_id' THEN jsonb_build_object('content_id', e -> 'content_id') ELSE '{}' END, c.wrong INTO email, wrong
    FROM fairpost.check_submission(whose, e - '{workspace,content_id}'::text[], 'login:' || session_user, NULL) c;
END $$;

-- Returns which of these e-mails use another workspace's content, as {"ord": error}. Content without a workspace belongs to the operator alone.
CREATE OR REPLACE FUNCTION fairpost.foreign_contents(emails jsonb, is_operator boolean) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    WITH given AS MATERIALIZED (
        SELECT e.ordinality AS ord, (e.value ->> 'content_id')::bigint AS content_id, coalesce(e.value ->> 'workspace', 'default') AS workspace
        FROM jsonb_array_elements(emails) WITH ORDINALITY e
        WHERE CASE WHEN jsonb_typeof(e.value) = 'object' THEN e.value ->> 'content_id' ~ '^[0-9]{1,18}$|^[1-8][0-9]{18}$' END
    ), foreign_to AS MATERIALIZED (
        SELECT g.content_id, g.workspace FROM (SELECT DISTINCT g.content_id, g.workspace FROM given g) g
        WHERE coalesce((SELECT s.workspace FROM fairpost.shared_contents s WHERE s.content_id = g.content_id LIMIT 1), (SELECT q.workspace FROM fairpost.queue q WHERE q.id = g.content_id LIMIT 1),
                       (SELECT m.workspace FROM fairpost.emails m WHERE m.id = g.content_id LIMIT 1), CASE WHEN is_operator THEN g.workspace END)
              IS DISTINCT FROM g.workspace
    )
    SELECT coalesce(jsonb_object_agg(g.ord, fairpost.complaint('content_id', format('there is no content %s in this workspace', g.content_id))), '{}')
    FROM given g WHERE (g.content_id, g.workspace) IN (SELECT f.content_id, f.workspace FROM foreign_to f)
$$;

-- Returns a result for each e-mail, in order, as enqueue_many does. `p_caller` is the submitter: `key:…`, `login:…` or `person:…`. Reusing an
-- idempotency key with a different request is an error. `p_requests` are the original requests, if the e-mails were built from requests.
DROP FUNCTION IF EXISTS fairpost.submit(text, jsonb, integer, integer, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.submit(
    p_workspace text, p_emails jsonb, p_daily_max integer DEFAULT NULL, p_waiting_max integer DEFAULT NULL, p_now timestamptz DEFAULT NULL,
    p_caller text DEFAULT NULL, p_workspace_max integer DEFAULT NULL, p_requests jsonb DEFAULT NULL
)
RETURNS TABLE (ord integer, id bigint, new boolean, error jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET timezone = 'UTC' SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    good jsonb;
    places integer[];
    fingerprints bigint[];
    errors jsonb;
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    IF jsonb_array_length(p_emails) = 1 THEN
        SELECT p.id, p.error INTO id, error
        FROM fairpost.check_submission(p_workspace, p_emails -> 0, p_caller, p_now) c, fairpost.enqueue_plain(c.email, p_now, p_daily_max, p_waiting_max, p_workspace_max,
            CASE WHEN p_emails -> 0 ? 'idempotency_key' THEN fairpost.fingerprint(coalesce(p_requests -> 0, p_emails -> 0)) END) p
        WHERE c.wrong IS NULL;
        IF id IS NOT NULL OR error IS NOT NULL THEN
            ord := 1;
            new := error IS NULL;
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    WITH given AS MATERIALIZED (
        SELECT e.*, jsonb_build_object('pool', e.value -> 'pool', 'account', e.value -> 'account', 'from', e.value -> 'from') AS way
        FROM jsonb_array_elements(p_emails) WITH ORDINALITY e
    ), checked AS MATERIALIZED (   -- once for all e-mails with the same pool, account and sender
        SELECT d.way, r.* FROM (SELECT DISTINCT g.way FROM given g) d CROSS JOIN LATERAL fairpost.check_route(p_workspace, d.way, p_now) r
    )
    SELECT jsonb_agg(c.email ORDER BY e.ordinality) FILTER (WHERE c.wrong IS NULL), array_agg(e.ordinality ORDER BY e.ordinality) FILTER (WHERE c.wrong IS NULL),
           array_agg(CASE WHEN e.value ? 'idempotency_key' THEN fairpost.fingerprint(coalesce(p_requests -> (e.ordinality::integer - 1), e.value)) END ORDER BY e.ordinality) FILTER (WHERE c.wrong IS NULL),
           jsonb_object_agg(e.ordinality, c.wrong) FILTER (WHERE c.wrong IS NOT NULL)
    INTO good, places, fingerprints, errors
    FROM given e JOIN checked r USING (way) CROSS JOIN LATERAL fairpost.as_submitted(p_workspace, e.value, p_caller, r.route, r.wrong) c;
    RETURN QUERY
    SELECT places[m.ord], m.id, m.new, m.error FROM fairpost.enqueue_many(good, p_now, p_daily_max, p_waiting_max, p_workspace_max, fingerprints) m
    UNION ALL
    SELECT w.key::integer, NULL, false, w.value FROM jsonb_each(errors) w
    ORDER BY 1;
END $$;
