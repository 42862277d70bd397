-- How often an account's settings were changed: a worker that began under older ones ends, and begins anew.
ALTER TABLE fairpost.accounts ADD COLUMN revision bigint NOT NULL DEFAULT 0;
ALTER TABLE fairpost.leases ADD COLUMN revision bigint NOT NULL DEFAULT 0;   -- the account's, when the lease was taken

CREATE FUNCTION fairpost.count_revision() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    NEW.revision := OLD.revision + 1;
    RETURN NEW;
END $$;

CREATE TRIGGER count_revision BEFORE UPDATE ON fairpost.accounts FOR EACH ROW EXECUTE FUNCTION fairpost.count_revision();
