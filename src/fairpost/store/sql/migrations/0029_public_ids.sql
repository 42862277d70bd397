-- The key of public ids, by which e-mails are known outside (see sql/base/public_ids.sql). It is made here, once for each database, and never changes: every
-- id that was ever given away depends on it. Only the owner reads it.
CREATE TABLE fairpost.public_ids (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    key   bytea NOT NULL CHECK (octet_length(key) = 32),
    since bigint NOT NULL   -- from this id on, e-mails carry their public id; those before may have been begun, and keep the Message-ID that they had
);
ALTER TABLE fairpost.public_ids ENABLE ROW LEVEL SECURITY;

INSERT INTO fairpost.public_ids (key, since)
SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), (extract(epoch FROM clock_timestamp()) * 1000)::bigint << 20;
