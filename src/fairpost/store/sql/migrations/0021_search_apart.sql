-- A workspace that looks for an address walks through its own e-mails to it, and through nobody else's.

-- As base/addresses.sql has it. Here it is looked up when it is called, for the functions of a new database are laid after this.
CREATE FUNCTION fairpost.address_marks(workspace text, recipients jsonb) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN ARRAY(SELECT m FROM jsonb_array_elements(recipients) r, LATERAL (SELECT fairpost.fold(r ->> 'address') AS folded) f,
                 LATERAL (VALUES (hashtext(f.folded)), (hashtext(workspace || ' ' || f.folded))) v(m));
END $$;

-- Still one index, by which those who run the service find an address in all workspaces: one after the other, for few write to the same person.
DROP INDEX fairpost.emails_by_address;
CREATE INDEX emails_by_address ON fairpost.emails (fairpost.address_mark(recipients), workspace, id);

-- Each address twice: as anybody's, and as this workspace's. Few e-mails are for several.
DROP INDEX fairpost.emails_by_addresses;
CREATE INDEX emails_by_addresses ON fairpost.emails USING gin (fairpost.address_marks(workspace, recipients)) WHERE jsonb_array_length(recipients) > 1;
DROP INDEX fairpost.queue_by_addresses;
CREATE INDEX queue_by_addresses ON fairpost.queue USING gin (fairpost.address_marks(workspace, recipients)) WHERE jsonb_array_length(recipients) > 1;
DROP FUNCTION fairpost.address_marks(jsonb);
