-- The fast path for a single plain e-mail. The values are inserted directly. The regular path, enqueue_many, would insert the same rows.

-- Enqueues one e-mail if it is plain, its idempotency key is new, and its user and workspace have no limit of their own. Returns its id, or a
-- complaint that its user has submitted too much. If both are null, nothing was written and the caller must use enqueue_many, which also reports
-- problems. The other parameters are the same as for enqueue_many. The caller must have the owner's privileges and must have disabled sequential
-- scans.
CREATE OR REPLACE FUNCTION fairpost.enqueue_plain(
    email jsonb, p_now timestamptz DEFAULT NULL, p_daily_max integer DEFAULT NULL, p_waiting_max integer DEFAULT NULL, p_workspace_max integer DEFAULT NULL,
    p_fingerprint bigint DEFAULT NULL, OUT id bigint, OUT error jsonb
)
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    slack CONSTANT integer := 1000;   -- as in too_many
    spoken_for CONSTANT text[] := fairpost.spoken_for();
    t CONSTANT timestamptz := coalesce(CASE WHEN spoken_for IS NULL THEN p_now END, clock_timestamp());
    new_id CONSTANT bigint := fairpost.new_id();
    o fairpost.plain_fields;
    key_hash uuid;
    workspace text;
    user_name text;
    route text;
    stream text;
    class fairpost.email_class;
    domain text;
    flow uuid;
    due_at timestamptz;
    room record;
BEGIN
    IF spoken_for IS NOT NULL THEN
        email := (SELECT c.email FROM fairpost.check_application(spoken_for, email) c WHERE c.wrong IS NULL);
    END IF;
    IF jsonb_typeof(email) IS DISTINCT FROM 'object' OR fairpost.tenant() IS NOT NULL THEN
        RETURN;
    END IF;
    o := jsonb_populate_record(NULL::fairpost.plain_fields, email);
    IF fairpost.is_plain(email, o, NULL) IS NOT TRUE THEN
        RETURN;
    END IF;
    workspace := coalesce(o.workspace, 'default');
    user_name := fairpost.normalize_user(coalesce(o."user", ''));
    IF EXISTS (SELECT FROM fairpost.senders s WHERE s.workspace = workspace AND s.name IN ('', user_name) AND (s.daily_max IS NOT NULL OR s.waiting_max IS NOT NULL)) THEN
        RETURN;
    END IF;
    key_hash := fairpost.caller_key_hash(workspace, o.idempotency_key);
    IF p_daily_max IS NOT NULL OR p_waiting_max IS NOT NULL OR p_workspace_max IS NOT NULL THEN
        IF EXISTS (SELECT FROM fairpost.idempotency_keys k WHERE k.key_hash = key_hash)
            OR p_workspace_max IS NOT NULL AND fairpost.submitted(workspace, '', t) + 1 + slack > p_workspace_max THEN   -- so close to the limit, every e-mail must take a lock
            RETURN;
        END IF;
        IF user_name <> '' AND (p_daily_max IS NOT NULL OR p_waiting_max IS NOT NULL) THEN
            PERFORM pg_advisory_xact_lock(fairpost.quota_lock(workspace, user_name));
            room := fairpost.room_for(workspace, user_name, 1, p_daily_max, p_waiting_max, t);
            IF room.why IS NOT NULL THEN
                error := fairpost.too_much(user_name, room.why, room.until);
                RETURN;
            END IF;
        END IF;
    END IF;
    IF key_hash IS NOT NULL THEN
        INSERT INTO fairpost.idempotency_keys (key_hash, email_id) VALUES (key_hash, new_id) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    id := new_id;
    route := coalesce('@' || o.account, o.pool, 'default');
    stream := coalesce(o.stream, '');
    class := coalesce(o.class, CASE stream WHEN '' THEN 'urgent' ELSE 'bulk' END);
    domain := coalesce(split_part(o."from", '@', 2), '');
    flow := fairpost.flow_of(route, class, workspace, domain, user_name, stream);
    due_at := coalesce(o.due_at::timestamptz, t);
    WITH content AS (
        INSERT INTO fairpost.contents (id, subject, text_body, html_body, created_at) VALUES (id, o.subject, o.text, o.html, t)
    ), noted AS (
        INSERT INTO fairpost.arrivals (route, class, workspace, domain, user_name, stream, flow, n, fresh, due_at, id)
        VALUES (route, class, workspace, domain, user_name, stream, flow, 1, 1, due_at, id)
    )
    INSERT INTO fairpost.queue (id, flow, due_at, attempts_max, created_at, content_id, class, on_doubt, route, workspace, domain, user_name, stream, sender, recipients,
        addresses, idempotency_key)
    VALUES (id, flow, due_at, CASE class WHEN 'urgent' THEN 5 ELSE 4 END, t, id, class,
        coalesce(o.on_doubt, CASE class WHEN 'urgent' THEN 'resend' ELSE 'hold' END)::fairpost.doubt_policy,
        route, workspace, domain, user_name, stream, CASE WHEN o."from" IS NOT NULL THEN jsonb_build_object('address', o."from") END,
        jsonb_build_array(jsonb_build_object('kind', 'to', 'address', o."to")), ARRAY[o."to"], o.idempotency_key);
    IF p_daily_max IS NOT NULL OR p_workspace_max IS NOT NULL THEN
        INSERT INTO fairpost.submissions AS s (workspace, user_name, hour, n)
        SELECT workspace, '', fairpost.hour_of(t) + fairpost.counter_place(workspace) * interval '1 microsecond', 1 WHERE p_workspace_max IS NOT NULL
        UNION ALL
        SELECT workspace, user_name, fairpost.hour_of(t), 1 WHERE p_daily_max IS NOT NULL AND user_name <> ''
        ON CONFLICT ON CONSTRAINT submissions_pkey DO UPDATE SET n = s.n + 1;
    END IF;
    IF p_fingerprint IS NOT NULL AND key_hash IS NOT NULL THEN
        INSERT INTO fairpost.request_fingerprints (key_hash, fingerprint) VALUES (key_hash, p_fingerprint)
        ON CONFLICT ON CONSTRAINT request_fingerprints_pkey DO UPDATE SET fingerprint = excluded.fingerprint;   -- for a key that was freed
    END IF;
    IF EXISTS (SELECT FROM fairpost.engines e WHERE e.asleep) THEN
        PERFORM fairpost.wake_engines(jsonb_build_array(email));
    END IF;
END $$;
