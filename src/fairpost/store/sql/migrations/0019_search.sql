-- E-mails are found by whom they are for, by who sent them and by their stream, however many there are.

-- As base/addresses.sql has them. Here they are looked up when they are called, for the functions of a new database are laid after this.
CREATE FUNCTION fairpost.address_mark(recipients jsonb) RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN hashtext(fairpost.fold(recipients #>> '{0,address}'));
END $$;
CREATE FUNCTION fairpost.address_marks(recipients jsonb) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN ARRAY(SELECT hashtext(fairpost.fold(r ->> 'address')) FROM jsonb_array_elements(recipients) r);
END $$;

-- History is written once: an index more is paid once, when an e-mail ends.
CREATE INDEX emails_by_address ON fairpost.emails (fairpost.address_mark(recipients), id);
CREATE INDEX emails_by_addresses ON fairpost.emails USING gin (fairpost.address_marks(recipients)) WHERE jsonb_array_length(recipients) > 1;
CREATE INDEX emails_by_user ON fairpost.emails (workspace, user_name, id) WHERE user_name <> '';
CREATE INDEX emails_by_stream ON fairpost.emails (workspace, stream, id) WHERE stream <> '';

-- The queue's is paid when an e-mail is accepted, claimed and ended, so it gets no other index: the one that leads through a workspace says a little more
-- of each e-mail. To look through 100,000 of its entries takes milliseconds, and no e-mail is read that is not looked for.
DROP INDEX fairpost.queue_by_workspace;
CREATE INDEX queue_by_workspace ON fairpost.queue (workspace, id, fairpost.address_mark(recipients), user_name, stream);
CREATE INDEX queue_by_addresses ON fairpost.queue USING gin (fairpost.address_marks(recipients)) WHERE jsonb_array_length(recipients) > 1;

-- What people decided on single e-mails, for the life of one. Few of all events.
CREATE INDEX events_of_emails ON fairpost.events (subject, id) WHERE kind IN ('resolved', 'retried');
