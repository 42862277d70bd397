-- What the account has met since something of it passed; its worker may come and go.
ALTER TABLE fairpost.leases ADD COLUMN troubles jsonb;

COMMENT ON COLUMN fairpost.arrivals.fresh IS 'above zero: so many were just enqueued; below zero: so many were claimed and not begun, and their turns are given back';
