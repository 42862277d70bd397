-- The suppression list, and how addresses are added to it. Addresses on the list receive no more mail, from one workspace or ('*') from any.

-- Returns the hash that is kept in place of an erased address. The hash does not reveal the address, but a given address can be checked against it.
CREATE OR REPLACE FUNCTION fairpost.address_hash(folded text) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
    SELECT sha256(s.salt || convert_to(folded, 'UTF8')) FROM fairpost.salts s WHERE s.single
$$;

-- Returns whether an entry on the list stops mail of this class. An unsubscribe stops only bulk mail, because a person who wants no newsletters may
-- still request a new password. All other kinds (a dead mailbox, a complaint, a manual decision) stop all mail, even if an unsubscribe was added
-- later (`p_also_urgent`).
CREATE OR REPLACE FUNCTION fairpost.stops_mail(p_kind fairpost.suppression_kind, p_also_urgent boolean, p_class fairpost.email_class) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_class = 'bulk' OR p_kind <> 'unsubscribe' OR p_also_urgent
$$;

-- Returns the given addresses to which this workspace must not send mail of this class.
DROP FUNCTION IF EXISTS fairpost.suppressed(text, text[]);
CREATE OR REPLACE FUNCTION fairpost.suppressed(p_workspace text, addresses text[], p_class fairpost.email_class DEFAULT 'bulk') RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    found text[] := '{}';
    a text;
    folded text;
    has_erased CONSTANT boolean := EXISTS (SELECT FROM fairpost.suppression_hashes);
BEGIN
    -- The addresses are looked up one by one by their keys, because for a single query, a planner without statistics may read a workspace's whole
    -- list. The addresses are normalized beforehand, because an assignment is cheaper than the same expression in a query.
    FOREACH a IN ARRAY addresses LOOP
        folded := fairpost.normalize_address(a);
        IF EXISTS (SELECT FROM fairpost.suppressions s WHERE s.address = folded AND s.workspace IN (p_workspace, '*') AND fairpost.stops_mail(s.kind, s.also_urgent, p_class))
        OR has_erased AND EXISTS (SELECT FROM fairpost.suppression_hashes h WHERE h.address_hash = (SELECT sha256(s.salt || convert_to(folded, 'UTF8')) FROM fairpost.salts s WHERE s.single)
                   AND h.workspace IN (p_workspace, '*') AND fairpost.stops_mail(h.kind, h.also_urgent, p_class)) THEN
            found := found || a;
        END IF;
    END LOOP;
    RETURN found;
END $$;

-- Suppresses an address in one workspace or ('*') in all. `p_kind` is `soft_bounces`, `hard_bounce`, `manual`, `unsubscribe` or `complaint`. Returns
-- true if the address was not on the list. If it was, its date is kept, the more serious of the two kinds applies, and urgent mail is stopped if
-- either kind stops it. For an erased person, only the hash is kept.
DROP FUNCTION IF EXISTS fairpost.suppress(text, text, text, timestamptz);
CREATE OR REPLACE FUNCTION fairpost.suppress(
    p_workspace text, p_address text, p_reason text, p_now timestamptz DEFAULT NULL, p_kind text DEFAULT 'manual'
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    INSERT INTO fairpost.suppression_hashes AS h (workspace, address_hash, kind, created_at)
    SELECT p_workspace, known.address_hash, p_kind::fairpost.suppression_kind, coalesce(p_now, clock_timestamp()) FROM fairpost.suppression_hashes known
    WHERE known.address_hash = fairpost.address_hash(fairpost.normalize_address(p_address)) AND known.workspace IN (p_workspace, '*') LIMIT 1
    ON CONFLICT (address_hash, workspace) DO UPDATE SET kind = greatest(h.kind, excluded.kind),
        also_urgent = fairpost.stops_mail(h.kind, h.also_urgent, 'urgent') OR fairpost.stops_mail(excluded.kind, excluded.also_urgent, 'urgent');
    IF FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO fairpost.suppressions (workspace, address, kind, reason, created_at)
    VALUES (p_workspace, fairpost.normalize_address(p_address), p_kind::fairpost.suppression_kind, left(p_reason, 500), coalesce(p_now, clock_timestamp()))
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        IF p_kind IN ('manual', 'unsubscribe', 'complaint') THEN   -- for bounces, this happens when the e-mails are claimed
            PERFORM fairpost.cancel_prospect(p.id, NULL, 'email.recipient_suppressed', jsonb_build_object('kind', p_kind, 'note', p_reason), p_now)
            FROM fairpost.prospects p WHERE p.workspace = p_workspace AND p.folded = fairpost.normalize_address(p_address);
        END IF;
        RETURN true;
    END IF;
    UPDATE fairpost.suppressions s SET kind = greatest(s.kind, p_kind::fairpost.suppression_kind),
        reason = CASE WHEN s.kind < p_kind::fairpost.suppression_kind THEN left(p_reason, 500) ELSE s.reason END,
        also_urgent = fairpost.stops_mail(s.kind, s.also_urgent, 'urgent') OR p_kind <> 'unsubscribe'
    WHERE s.workspace = p_workspace AND s.address = fairpost.normalize_address(p_address)
    AND (s.kind < p_kind::fairpost.suppression_kind OR p_kind <> 'unsubscribe' AND NOT fairpost.stops_mail(s.kind, s.also_urgent, 'urgent'));
    RETURN false;
END $$;

-- Removes an address. Returns true if it was on the list. Also deletes the address's count of soft bounces, because otherwise the next soft bounce
-- would add the address again.
CREATE OR REPLACE FUNCTION fairpost.unsuppress(p_workspace text, p_address text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    was_hashed boolean;
BEGIN
    PERFORM fairpost.require_own(p_workspace);
    DELETE FROM fairpost.soft_bounces b WHERE b.workspace = p_workspace AND b.address = fairpost.normalize_address(p_address);
    DELETE FROM fairpost.suppression_hashes h WHERE h.workspace = p_workspace AND h.address_hash = fairpost.address_hash(fairpost.normalize_address(p_address));
    was_hashed := FOUND;
    DELETE FROM fairpost.suppressions s WHERE s.workspace = p_workspace AND s.address = fairpost.normalize_address(p_address);
    RETURN FOUND OR was_hashed;
END $$;

-- Applies the results of an attempt to the recipients' addresses. Addresses in `bounced` no longer exist and are suppressed. Addresses in
-- `soft_bounced` did not accept the e-mail and will not be tried again. These failures are counted, and an address is suppressed after too many
-- consecutive failures within the window. For recipients that received the e-mail, the counts are reset. The counts are written first, then the list,
-- each in alphabetical order, so that two concurrent settlements for the same people may wait for each other but never deadlock.
CREATE OR REPLACE FUNCTION fairpost.apply_bounces(email fairpost.queue, p_outcome text, p_detail jsonb, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    window_length CONSTANT interval := interval '30 days';
    is_accepted CONSTANT boolean := p_outcome = 'sent' OR p_outcome = 'retry' AND (p_detail ->> 'code') LIKE '2%';
    most CONSTANT integer := (SELECT r.soft_bounces_max FROM fairpost.suppression_rule r);
    too_often text[] := '{}';
    mailbox record;
    times integer;
BEGIN
    FOR mailbox IN
        SELECT fairpost.normalize_address(a) AS address, true AS is_soft FROM jsonb_array_elements_text(p_detail -> 'soft_bounced') a
        UNION
        SELECT fairpost.normalize_address(a), false FROM unnest(email.addresses) a
        WHERE is_accepted AND coalesce(p_detail #>> ARRAY['recipients', a, 'code'], '2') LIKE '2%'
        AND NOT coalesce((p_detail -> 'bounced') ? a OR (p_detail -> 'soft_bounced') ? a OR (p_detail -> 'remaining') ? a, false)
        ORDER BY address
    LOOP
        IF NOT mailbox.is_soft THEN
            DELETE FROM fairpost.soft_bounces b WHERE b.workspace = email.workspace AND b.address = mailbox.address;
            CONTINUE;
        END IF;
        INSERT INTO fairpost.soft_bounces AS b (workspace, address, count, first_at, last_at)
        VALUES (email.workspace, mailbox.address, 1, p_now, p_now)
        ON CONFLICT (workspace, address) DO UPDATE SET
            count = CASE WHEN b.first_at > p_now - window_length THEN b.count + 1 ELSE 1 END,
            first_at = CASE WHEN b.first_at > p_now - window_length THEN b.first_at ELSE p_now END,
            last_at = p_now
        RETURNING b.count INTO times;
        IF most > 0 AND times >= most THEN
            too_often := too_often || mailbox.address;
        END IF;
    END LOOP;

    PERFORM fairpost.suppress(email.workspace, s.address, s.reason, p_now, s.kind)
    FROM (SELECT fairpost.normalize_address(a) AS address, 'hard_bounce' AS kind, 'hard bounce: ' || fairpost.reply_to(p_detail, a) AS reason
          FROM jsonb_array_elements_text(p_detail -> 'bounced') a
          UNION ALL
          SELECT b.address, 'soft_bounces', format('%s e-mails in a row were not taken, the last: %s', b.count, fairpost.reply_to(p_detail, a))
          FROM jsonb_array_elements_text(p_detail -> 'soft_bounced') a
          CROSS JOIN LATERAL (SELECT * FROM fairpost.soft_bounces b WHERE b.workspace = email.workspace AND b.address = fairpost.normalize_address(a) OFFSET 0) b
          WHERE b.address = ANY (too_often)
          ORDER BY address) s;

    DELETE FROM fairpost.soft_bounces b WHERE b.ctid = ANY (ARRAY(
        SELECT o.ctid FROM fairpost.soft_bounces o
        WHERE o.last_at <= p_now - window_length ORDER BY o.last_at LIMIT 100 FOR UPDATE SKIP LOCKED));
END $$;

-- Returns the server's reply for this recipient or, if there is none, the server's last reply.
CREATE OR REPLACE FUNCTION fairpost.reply_to(p_detail jsonb, address text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(p_detail #>> ARRAY['recipients', address, 'text'], left(p_detail ->> 'reply', 2000), '')
$$;

-- Renormalizes addresses that were normalized under earlier rules. Few rows are affected, because all rules treat ASCII in the same way.
DO $$
DECLARE
    s fairpost.suppressions;
BEGIN
    FOR s IN SELECT * FROM fairpost.suppressions o WHERE octet_length(o.address) <> length(o.address) AND o.address <> fairpost.normalize_address(o.address) LOOP
        IF EXISTS (SELECT FROM fairpost.suppressions o WHERE o.workspace = s.workspace AND o.address = fairpost.normalize_address(s.address)) THEN
            DELETE FROM fairpost.suppressions o WHERE o.workspace = s.workspace AND o.address = s.address;
        ELSE
            UPDATE fairpost.suppressions o SET address = fairpost.normalize_address(s.address) WHERE o.workspace = s.workspace AND o.address = s.address;
        END IF;
    END LOOP;
END $$;
