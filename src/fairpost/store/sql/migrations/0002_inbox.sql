-- The development inbox: mail that the capture server took in, kept to be looked at, sent on to nobody.

CREATE TABLE fairpost.inbox (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- short, because people type it
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    sender      text NOT NULL,            -- of the envelope; empty: the null sender <>
    recipients  text[] NOT NULL,          -- of the envelope
    subject     text NOT NULL,
    from_header text NOT NULL,            -- as the mail says, decoded
    message_id  text NOT NULL,            -- empty: it has none
    size        integer NOT NULL,         -- of raw, in bytes
    attachments jsonb NOT NULL,           -- [{"filename", "content_type", "inline_id", "bytes"}]
    helo        text NOT NULL,
    peer        text NOT NULL,
    tls         text,                     -- its version; null: the connection was plain
    auth_user   text,                     -- null: nobody logged in
    search      text NOT NULL,            -- subject, addresses and text, folded and cut
    raw         bytea NOT NULL,           -- the message as it came, dots unstuffed
    CHECK (size = octet_length(raw))
);

-- Most of a large mail is base64, which pglz only makes slower.
ALTER TABLE fairpost.inbox ALTER COLUMN raw SET STORAGE EXTERNAL;
