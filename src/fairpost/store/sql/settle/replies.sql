-- Stores a person's replies in the same transaction that applies them.

-- Stores a message in the conversation with the recipient of the e-mail. Storing the same message again changes nothing. An e-mail can have at most
-- 100 replies, so that an auto-responder in a loop does not fill the table. `p_mail` is the message, as built by maintenance/returns.py.
CREATE OR REPLACE FUNCTION fairpost.keep_reply(p_email bigint, p_workspace text, p_address text, p_account bigint, p_mail jsonb, p_now timestamptz) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    answers_max CONSTANT integer := 100;
    sender CONSTANT bigint := coalesce(p_account, (SELECT e.account_id FROM fairpost.emails e WHERE e.id = p_email), (SELECT q.account_id FROM fairpost.queue q WHERE q.id = p_email));
    conversation bigint;
BEGIN
    INSERT INTO fairpost.conversations AS c (workspace, address, last_at) VALUES (p_workspace, p_address, p_now)
    ON CONFLICT (workspace, address) DO UPDATE SET last_at = c.last_at RETURNING c.id INTO conversation;   -- locks the conversation
    IF (SELECT count(*) FROM fairpost.replies r WHERE r.conversation_id = conversation AND r.email_id = p_email) >= answers_max THEN
        RETURN;
    END IF;
    INSERT INTO fairpost.replies (conversation_id, workspace, email_id, account_id, kind, mail, author, from_name, from_address, to_addresses, subject, sent_at, at,
        message_id, in_reply_to, refs, text_body, html_body, is_cut)
    SELECT conversation, p_workspace, p_email, sender, m.kind, m.mail, left(fairpost.normalize_address(m.from_address), 320), m.from_name, m.from_address, m.to_addresses, m.subject, m.sent_at, p_now,
        m.message_id, m.in_reply_to, m.refs, m.text, m.html, m.is_cut
    FROM jsonb_to_record(p_mail) m(kind text, mail text, from_name text, from_address text, to_addresses text[], subject text, sent_at timestamptz, message_id text, in_reply_to text, refs text[],
        text text, html text, is_cut boolean)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        UPDATE fairpost.conversations c SET last_at = greatest(c.last_at, p_now) WHERE c.id = conversation;
    END IF;
END $$;

-- Erases a person's address from other people's replies, in batches. Continue after `last`; if it is null, there are no more replies.
CREATE OR REPLACE FUNCTION fairpost.erase_replies(p_workspace text, p_written text[], p_after bigint DEFAULT 0, p_max integer DEFAULT 10000, OUT last bigint)
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    pattern CONSTANT text := fairpost.address_pattern(p_written);
BEGIN
    last := (SELECT r.id FROM fairpost.replies r WHERE r.id > p_after ORDER BY r.id OFFSET p_max - 1 LIMIT 1);
    UPDATE fairpost.replies r SET subject = fairpost.without(r.subject, pattern), text_body = fairpost.without(r.text_body, pattern), html_body = fairpost.without(r.html_body, pattern),
        to_addresses = ARRAY(SELECT a FROM unnest(r.to_addresses) a WHERE a !~* pattern)
    WHERE r.id > p_after AND (last IS NULL OR r.id <= last) AND (p_workspace IS NULL OR r.workspace = p_workspace)
    AND (r.subject ~* pattern OR r.text_body ~* pattern OR r.html_body ~* pattern OR array_to_string(r.to_addresses, ' ') ~* pattern);
END $$;
