-- Why things are as they are is a code with parameters, no longer a sentence: see docs/decisions/0026-reasons-in-two-columns.md. History only
-- gets the column: there may be millions of rows, and a sentence that has no parameters beside it is translated when it is read. The queue and the senders are held
-- by callers' transactions, and stay as they are: a reason stands in one text there (see base/reasons.sql).
ALTER TABLE fairpost.emails ADD COLUMN reason_params jsonb;
ALTER TABLE fairpost.campaigns ADD COLUMN reason_params jsonb;
ALTER TABLE fairpost.stops ADD COLUMN params jsonb;
ALTER TABLE fairpost.pauses ADD COLUMN params jsonb;
ALTER TABLE fairpost.rules
    ADD COLUMN hold_params jsonb,
    ADD COLUMN throttle_params jsonb,
    ADD COLUMN closed_until timestamptz,   -- the window of a campaign is closed, or its quota used up
    ADD COLUMN closed_reason text,
    ADD COLUMN closed_params jsonb;
ALTER TABLE fairpost.accounts ADD COLUMN status_params jsonb;

UPDATE fairpost.accounts a SET (status_reason, status_params) = (
    SELECT coalesce(k.code, 'legacy.text'), coalesce(k.params, jsonb_build_object('text', a.status_reason))
    FROM (VALUES (1)) one LEFT JOIN LATERAL (
        SELECT 'account.authentication_failed', jsonb_build_object('reply', m[1])
        FROM regexp_match(a.status_reason, '^its server refused the login: (.*)$') m WHERE m IS NOT NULL
        UNION ALL
        SELECT 'account.too_many_bounces', jsonb_build_object('bounced', m[1]::bigint, 'sent', m[2]::bigint, 'percent_max', m[3]::numeric)
        FROM regexp_match(a.status_reason, '^(\d{1,15}) of (\d{1,15}) e-mails bounced on this day, more than (\d{1,3}(?:\.\d{1,6})?) %$') m WHERE m IS NOT NULL
        UNION ALL
        SELECT 'account.refused_in_a_row', jsonb_build_object('refused', m[1]::bigint, 'reply', m[2])
        FROM regexp_match(a.status_reason, '^refused (\d{1,15}) times in a row: (.*)$') m WHERE m IS NOT NULL
        UNION ALL
        SELECT 'account.worker_died', jsonb_build_object('times', m[1]::bigint)
        FROM regexp_match(a.status_reason, '^its worker died (\d{1,15}) times in a row$') m WHERE m IS NOT NULL
        UNION ALL
        SELECT CASE WHEN m[1] IS NULL THEN 'account.daily_limit_reached' ELSE 'account.warm_up_limit_reached' END, jsonb_build_object('sent', m[2]::bigint)
        FROM regexp_match(a.status_reason, '^daily limit( of the warm-up)? reached: (\d{1,15}) sent$') m WHERE m IS NOT NULL
    ) k(code, params) ON true)
WHERE a.status_reason IS NOT NULL;
ALTER TABLE fairpost.accounts
    ADD CONSTRAINT accounts_reason_is_a_code CHECK (status_reason ~ '^[a-z_]+\.[a-z_]+$'),
    ADD CONSTRAINT accounts_reason_has_params CHECK ((status_reason IS NULL) = (status_params IS NULL));

UPDATE fairpost.leases l SET rest_reason = k.code
FROM (VALUES ('the provider asked for a pause', 'account.provider_pause'), ('its server could not be reached', 'account.server_unreachable'),
             ('daily limit', 'account.daily_limit')) k(words, code)
WHERE l.rest_reason = k.words;
ALTER TABLE fairpost.leases ADD CONSTRAINT leases_reason_is_a_code CHECK (rest_reason ~ '^[a-z_]+\.[a-z_]+$');

-- What a person typed stays a note. What engines wrote gets its code.
UPDATE fairpost.campaigns c SET (reason, reason_params) = (
    SELECT coalesce(k.code, CASE c.state WHEN 'paused' THEN 'campaign.paused_by_hand' WHEN 'cancelled' THEN 'campaign.cancelled_by_hand' ELSE 'legacy.text' END),
           coalesce(k.params, jsonb_build_object(CASE WHEN c.state IN ('paused', 'cancelled') THEN 'note' ELSE 'text' END, c.reason))
    FROM (VALUES (1)) one LEFT JOIN LATERAL (
        SELECT 'campaign.emails_held', jsonb_build_object('count', m[1]::bigint)
        FROM regexp_match(c.reason, '^(\d{1,15}) e-mails are held: in doubt, or of paused prospects$') m WHERE m IS NOT NULL
        UNION ALL
        SELECT 'campaign.account_removed', jsonb_build_object('account', m[1]) FROM regexp_match(c.reason, '^there is no account (\S+) any more$') m WHERE m IS NOT NULL
        UNION ALL
        SELECT 'campaign.pool_emptied', jsonb_build_object('pool', m[1]) FROM regexp_match(c.reason, '^there is no account in pool (.+) any more$') m WHERE m IS NOT NULL
        UNION ALL
        SELECT 'campaign.planning_failed', jsonb_build_object('error', m[1]) FROM regexp_match(c.reason, '^it could not be planned: (.*)$') m WHERE m IS NOT NULL
    ) k(code, params) ON c.state IN ('completed', 'failed'))
WHERE c.reason IS NOT NULL;
UPDATE fairpost.stops s SET reason = 'prospect.stopped_by_hand', params = jsonb_build_object('note', s.reason);
UPDATE fairpost.pauses p SET reason = CASE WHEN p.restored OR p.waits_for IS NOT NULL THEN 'legacy.text' ELSE 'everything.paused_by_hand' END,
    params = jsonb_build_object(CASE WHEN p.restored OR p.waits_for IS NOT NULL THEN 'text' ELSE 'note' END, p.reason);

-- A closed window is no throttle: it has a place of its own.
UPDATE fairpost.rules r SET closed_until = r.throttled_until, throttled_until = NULL, throttle_reason = NULL, closed_params = coalesce(k.params, '{}'),
    closed_reason = CASE WHEN k.params IS NOT NULL THEN 'schedule.quota_used_up' WHEN r.throttle_reason LIKE 'the quota of today%' THEN 'schedule.quota_unknown' ELSE 'schedule.window_closed' END
FROM fairpost.rules o LEFT JOIN LATERAL (
    SELECT jsonb_build_object('used', m[1]::bigint, 'allowed', m[2]::bigint)
    FROM regexp_match(o.throttle_reason, '^the daily quota is used up: (\d{1,15}) of (\d{1,15})$') m WHERE m IS NOT NULL) k(params) ON true
WHERE r.workspace = o.workspace AND r.level = o.level AND r.key = o.key AND r.level = 'stream' AND r.throttled_until IS NOT NULL;
UPDATE fairpost.rules r SET throttle_reason = CASE WHEN s.is_by_hand THEN 'throttle.by_hand' ELSE 'legacy.text' END,
    throttle_params = jsonb_build_object(CASE WHEN s.is_by_hand THEN 'note' ELSE 'text' END, r.throttle_reason)
FROM (SELECT o.workspace, o.level, o.key, coalesce(s.is_by_hand, false) AS is_by_hand FROM fairpost.rules o
      LEFT JOIN fairpost.senders s ON s.workspace = o.workspace AND s.level = o.level AND s.name = o.key) s
WHERE r.workspace = s.workspace AND r.level = s.level AND r.key = s.key AND r.throttle_reason IS NOT NULL;
UPDATE fairpost.rules r SET hold_reason = coalesce(k.code, 'hold.by_hand'), hold_params = jsonb_build_object(CASE WHEN k.code IS NULL THEN 'note' ELSE 'campaign' END, coalesce(k.name, r.hold_reason))
FROM fairpost.rules o LEFT JOIN LATERAL (
    SELECT 'hold.campaign_' || m[2], m[1] FROM regexp_match(o.hold_reason, '^campaign (\S+) (?:is|has) (paused|cancelled|failed)$') m WHERE m IS NOT NULL AND o.level = 'stream') k(code, name) ON true
WHERE r.workspace = o.workspace AND r.level = o.level AND r.key = o.key AND r.hold_reason IS NOT NULL;

ALTER TABLE fairpost.campaigns
    ADD CONSTRAINT campaigns_reason_is_a_code CHECK (reason ~ '^[a-z_]+\.[a-z_]+$'), ADD CONSTRAINT campaigns_reason_has_params CHECK ((reason IS NULL) = (reason_params IS NULL));
ALTER TABLE fairpost.stops ADD CONSTRAINT stops_reason_is_a_code CHECK (reason ~ '^[a-z_]+\.[a-z_]+$'), ALTER COLUMN params SET NOT NULL;
ALTER TABLE fairpost.pauses ADD CONSTRAINT pauses_reason_is_a_code CHECK (reason ~ '^[a-z_]+\.[a-z_]+$'), ALTER COLUMN params SET NOT NULL;
ALTER TABLE fairpost.rules
    ADD CONSTRAINT rules_hold_is_a_code CHECK (hold_reason ~ '^[a-z_]+\.[a-z_]+$'), ADD CONSTRAINT rules_throttle_is_a_code CHECK (throttle_reason ~ '^[a-z_]+\.[a-z_]+$'),
    ADD CONSTRAINT rules_closed_is_a_code CHECK (closed_reason ~ '^[a-z_]+\.[a-z_]+$'), ADD CONSTRAINT rules_only_streams_close CHECK (closed_until IS NULL OR level = 'stream');
