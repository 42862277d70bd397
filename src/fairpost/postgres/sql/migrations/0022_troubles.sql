-- What is given back gives its sender's turn back as well.
ALTER TABLE fairpost.arrivals ADD COLUMN unserved integer NOT NULL DEFAULT 0;   -- of the e-mails noted: claimed, and not begun

-- Attempts that ended because of the account: they are logged, and use up no try. Log entries are numbered by both together.
ALTER TABLE fairpost.queue ADD COLUMN deferrals integer NOT NULL DEFAULT 0;
ALTER TABLE fairpost.emails ADD COLUMN deferrals integer NOT NULL DEFAULT 0;

-- What the account has met since something of it passed; its worker may come and go.
ALTER TABLE fairpost.leases ADD COLUMN troubles jsonb;
