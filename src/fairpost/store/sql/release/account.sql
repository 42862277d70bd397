-- Adds a sender account, with its lease and the routes it serves. Columns that are not in `p_settings` get the table's defaults. Returns its id. If a
-- secret is given, `p_id` is the account id that it was sealed for, and `p_keys` are the keys that were in use at that time (see secrets.sql).
DROP FUNCTION IF EXISTS fairpost.add_account(text, text, text, jsonb, text, integer, integer, integer, integer, timestamptz);
DROP FUNCTION IF EXISTS fairpost.add_account(text, text, text, jsonb, text, integer, integer, integer, integer, timestamptz, bigint, text[]);
CREATE OR REPLACE FUNCTION fairpost.add_account(
    p_name text, p_address text, p_pool text, p_transport jsonb, p_settings jsonb DEFAULT '{}', p_now timestamptz DEFAULT NULL,
    p_id bigint DEFAULT NULL, p_keys text[] DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    added CONSTANT bigint := coalesce(p_id, fairpost.next_account_id());
BEGIN
    PERFORM fairpost.require_own_account(p_name);
    PERFORM fairpost.expect_keys(p_keys);
    PERFORM FROM fairpost.fairness f FOR KEY SHARE;   -- so that any change to the fairness settings covers all routes
    PERFORM fairpost.add_route(p_pool), fairpost.add_route('@' || p_name);
    INSERT INTO fairpost.accounts (id, name, address, pool, transport, created_at) OVERRIDING SYSTEM VALUE
    VALUES (added, p_name, p_address, p_pool, p_transport, coalesce(p_now, clock_timestamp()));
    INSERT INTO fairpost.leases (account_id) VALUES (added);
    PERFORM fairpost.change_account(p_name, p_settings);
    RETURN added;
END $$;

CREATE OR REPLACE FUNCTION fairpost.next_account_id() RETURNS bigint
LANGUAGE sql SET search_path = fairpost, pg_catalog, pg_temp AS $$
    SELECT nextval(pg_get_serial_sequence('fairpost.accounts', 'id'))
$$;

-- Changes the columns named in `p_changes`. `secret` is separate from `transport`: the password is kept unless `p_changes` names `secret`. Whatever
-- the account was waiting for is checked again. If `p_revision` is given, the account must still have that revision. Returns the account's id, or
-- null if it does not exist.
DROP FUNCTION IF EXISTS fairpost.change_account(text, jsonb, text[]);
CREATE OR REPLACE FUNCTION fairpost.change_account(p_name text, p_changes jsonb, p_keys text[] DEFAULT NULL, p_revision bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    changed bigint;
    was fairpost.accounts;
    becomes fairpost.accounts;
    has_status CONSTANT boolean := p_changes ? 'status';
BEGIN
    PERFORM fairpost.require_own_account(p_name);
    PERFORM fairpost.expect_keys(p_keys);
    PERFORM FROM fairpost.fairness f FOR KEY SHARE;
    PERFORM fairpost.add_route(p_changes ->> 'pool') WHERE p_changes ? 'pool';
    -- The lease is locked first, as in every other function.
    SELECT l.account_id INTO changed FROM fairpost.leases l JOIN fairpost.accounts a ON a.id = l.account_id WHERE a.name = p_name FOR UPDATE OF l;
    IF changed IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT * INTO was FROM fairpost.accounts a WHERE a.id = changed AND a.revision = coalesce(p_revision, a.revision) FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the account was changed in the meantime' USING ERRCODE = 'FP006', HINT = 'Nothing was changed.';
    END IF;
    becomes := jsonb_populate_record(was, p_changes);
    becomes.transport := (becomes.transport - 'secret') || jsonb_strip_nulls(jsonb_build_object('secret',
        CASE WHEN p_changes ? 'secret' THEN p_changes -> 'secret' ELSE was.transport -> 'secret' END));
    IF has_status THEN
        becomes.status_reason := p_changes ->> 'status_reason';
        becomes.status_params := fairpost.shortened(nullif(p_changes -> 'status_params', 'null'));
        becomes.status_until := (p_changes ->> 'status_until')::timestamptz;
        IF fairpost.tenant() IS NOT NULL AND was.is_stopped_by_operator AND was.status <> 'active' THEN
            RAISE EXCEPTION 'the operator has stopped this account' USING ERRCODE = 'FP005', HINT = 'Nothing was changed.';
        END IF;
    ELSIF was.status = 'paused_limit_reached' THEN
        becomes.status := 'active';
        becomes.status_reason := NULL;
        becomes.status_params := NULL;
        becomes.status_until := NULL;
    ELSE
        becomes.status_reason := was.status_reason;
        becomes.status_params := was.status_params;
        becomes.status_until := was.status_until;
    END IF;
    EXECUTE format('UPDATE fairpost.accounts a SET (%1$s) = (SELECT %1$s FROM (SELECT ($1).*) n) WHERE a.id = $2',
                   (SELECT string_agg(quote_ident(c), ', ') FROM fairpost.changeable_columns() c)) USING becomes, changed;
    IF has_status THEN
        UPDATE fairpost.accounts a SET is_stopped_by_operator = fairpost.tenant() IS NULL AND a.status <> 'active' WHERE a.id = changed;
    END IF;
    UPDATE fairpost.leases l SET rest_until = NULL, rest_reason = NULL, rest_detail = NULL, troubles = NULL
    WHERE l.account_id = changed AND (l.rest_until IS NOT NULL OR l.troubles IS NOT NULL);
    IF p_changes ->> 'status' = 'active' AND was.status IN ('paused', 'suspended') THEN
        PERFORM fairpost.begin_sample(changed);
    END IF;
    RETURN changed;
END $$;

-- The columns of an account that can be changed: its address, its server, its status, and every limit, including those added by later migrations.
CREATE OR REPLACE FUNCTION fairpost.changeable_columns() RETURNS SETOF name
LANGUAGE sql STABLE SET search_path = fairpost, pg_catalog, pg_temp AS $$
    SELECT a.attname FROM pg_attribute a
    WHERE a.attrelid = 'fairpost.accounts'::regclass AND a.attnum > 0 AND NOT a.attisdropped
      AND a.attname NOT IN ('id', 'name', 'workspace', 'created_at', 'revision', 'is_stopped_by_operator')
$$;

-- Sets the status until the given moment or until a person changes it. Called by the account's worker or (with a null `p_epoch`) by others. Returns
-- false, changing nothing, if the lease is gone.
DROP FUNCTION IF EXISTS fairpost.set_status(bigint, bigint, fairpost.account_status, text, timestamptz);
DROP FUNCTION IF EXISTS fairpost.set_status(bigint, bigint, fairpost.account_status, text, timestamptz, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.set_status(
    p_account bigint, p_epoch bigint, p_status fairpost.account_status, p_reason text, p_params jsonb, p_until timestamptz DEFAULT NULL, p_now timestamptz DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    PERFORM FROM fairpost.leases l WHERE l.account_id = p_account AND l.epoch = coalesce(p_epoch, l.epoch) ORDER BY l.step DESC LIMIT 1 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE fairpost.accounts a SET status = p_status, status_reason = p_reason, status_params = fairpost.shortened(p_params), status_until = p_until,
        is_stopped_by_operator = false   -- so its owner may resume it
    WHERE a.id = p_account AND a.status = 'active';   -- a person's decision takes precedence
    IF FOUND AND p_status = 'suspended' AND p_now IS NOT NULL THEN
        UPDATE fairpost.leases l SET suspended_at = p_now WHERE l.account_id = p_account;
    END IF;
    RETURN true;
END $$;

-- Writes an event with the reason for every status change, and records when a suspension started.
CREATE OR REPLACE FUNCTION fairpost.log_status() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO fairpost.events (at, kind, workspace, subject, detail)
    VALUES (clock_timestamp(), 'account_' || NEW.status, NEW.workspace, NEW.name,
            jsonb_strip_nulls(jsonb_build_object('reason', NEW.status_reason, 'params', NEW.status_params, 'until', NEW.status_until, 'before', OLD.status)));
    INSERT INTO fairpost.outbox (at, kind, workspace, account_id, subject, reason, params)
    VALUES (clock_timestamp(), CASE NEW.status WHEN 'active' THEN 'account.resumed' WHEN 'suspended' THEN 'account.suspended' ELSE 'account.paused' END, NEW.workspace, NEW.id, NEW.name,
            NEW.status_reason, NEW.status_params);
    IF NEW.status = 'suspended' THEN   -- the account can no longer log in, or is no longer allowed to try
        UPDATE fairpost.mailboxes m SET failed_since = coalesce(m.failed_since, clock_timestamp()) WHERE m.account_id = NEW.id;
    END IF;
    IF 'suspended' IN (OLD.status, NEW.status) THEN
        UPDATE fairpost.leases l SET deaths = CASE WHEN NEW.status = 'suspended' THEN l.deaths ELSE 0 END, suspended_at = CASE WHEN NEW.status = 'suspended' THEN clock_timestamp() END WHERE l.account_id = NEW.id;
    END IF;
    RETURN NULL;
END $$;

-- Prevents the account from sending until the given time. Each call replaces the previous one. Returns false if the lease is gone.
CREATE OR REPLACE FUNCTION fairpost.rest(p_account bigint, p_epoch bigint, p_until timestamptz, p_reason text, p_detail text) RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    UPDATE fairpost.leases l SET rest_until = p_until, rest_reason = p_reason, rest_detail = left(p_detail, 1000)
    WHERE l.account_id = p_account AND l.epoch = p_epoch;
    RETURN FOUND;
END $$;

-- Stores the account's current problems (null: none). The e-mails in `p_forgiven`, whose attempts failed because of the account, get one attempt
-- back. If any of these have since failed permanently, they are tried again. Returns false if the lease is gone.
CREATE OR REPLACE FUNCTION fairpost.set_troubles(p_account bigint, p_epoch bigint, p_troubles jsonb, p_forgiven bigint[] DEFAULT '{}', p_now timestamptz DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    UPDATE fairpost.leases l SET troubles = p_troubles WHERE l.account_id = p_account AND l.epoch = p_epoch;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    p_forgiven := ARRAY(SELECT q.id FROM fairpost.queue q WHERE q.id = ANY (p_forgiven) AND q.waiting AND q.attempts > 0 ORDER BY q.id FOR UPDATE SKIP LOCKED)
        || ARRAY(SELECT e.id FROM fairpost.emails e WHERE e.id = ANY (p_forgiven) AND e.state = 'failed');
    UPDATE fairpost.attempts a SET outcome = 'deferred'
    FROM fairpost.queue q WHERE q.id = ANY (p_forgiven) AND a.email_id = q.id AND a.n = q.attempts + fairpost.deferrals(q);
    UPDATE fairpost.queue q SET attempts = q.attempts - 1 WHERE q.id = ANY (p_forgiven);
    PERFORM fairpost.retry(e.id, p_now) FROM fairpost.emails e WHERE e.id = ANY (p_forgiven) AND e.state = 'failed';
    RETURN true;
END $$;

-- Removes an account unless any of its e-mails are claimed or any waiting e-mails may be sent only by this account. If there are such e-mails,
-- returns their number and changes nothing. The lease row is locked first, as for a claim, so that nothing is claimed in the meantime.
CREATE OR REPLACE FUNCTION fairpost.remove_account(
    p_name text, OUT known boolean, OUT removed boolean, OUT in_hand bigint, OUT in_doubt bigint, OUT pinned bigint
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    account bigint;
BEGIN
    PERFORM fairpost.require_own_account(p_name);
    SELECT l.account_id INTO account FROM fairpost.leases l JOIN fairpost.accounts a ON a.id = l.account_id
    WHERE a.name = p_name FOR UPDATE OF l;
    known := account IS NOT NULL;
    IF fairpost.tenant() IS NOT NULL AND EXISTS (SELECT FROM fairpost.accounts a WHERE a.id = account AND a.is_stopped_by_operator AND a.status <> 'active') THEN
        RAISE EXCEPTION 'the operator has stopped this account' USING ERRCODE = 'FP005', HINT = 'Nothing was changed.';   -- otherwise the workspace could remove the account, add it again under the same name, and send
    END IF;
    SELECT count(*) FILTER (WHERE q.state <> 'in_doubt'), count(*) FILTER (WHERE q.state = 'in_doubt') INTO in_hand, in_doubt
    FROM fairpost.queue q WHERE q.account_id = account AND NOT q.waiting;
    SELECT coalesce(sum(w.waiting), 0) INTO pinned FROM fairpost.waiting_by_route() w WHERE w.route = '@' || p_name;
    removed := known AND in_hand + in_doubt + pinned = 0;
    IF removed THEN
        DELETE FROM fairpost.accounts a WHERE a.id = account;
        INSERT INTO fairpost.removed_accounts (account_id) VALUES (account);
    END IF;
END $$;
