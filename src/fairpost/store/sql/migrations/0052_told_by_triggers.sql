-- What is changed in several ways tells of itself. The functions are in events/write.sql; here they only have to be there.
CREATE FUNCTION fairpost.tell_of_suppressions() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER tell AFTER INSERT ON fairpost.suppressions REFERENCING NEW TABLE AS new_entries FOR EACH STATEMENT EXECUTE FUNCTION fairpost.tell_of_suppressions();
CREATE FUNCTION fairpost.tell_of_domain() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER tell AFTER UPDATE OF proven_at ON fairpost.domains FOR EACH ROW WHEN (OLD.proven_at IS NULL AND NEW.proven_at IS NOT NULL) EXECUTE FUNCTION fairpost.tell_of_domain();

CREATE TABLE fairpost.outbox_rest PARTITION OF fairpost.outbox DEFAULT;   -- for what falls outside every day
