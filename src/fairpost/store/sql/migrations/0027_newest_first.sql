-- What changes all the time is found by its newest version. While a transaction is held open, every version of a row stays, with an entry in each index:
-- whoever looks the row up by its key walks all of them, and so does every change that a unique index has to check. Here a number that only grows comes
-- after the key, so the newest version is the last of its entries and the first that is found. No unique index: each row has one writer, who holds a lock
-- (the account's lease, or the route), and only this writer adds it.

-- The lease of an account changes with every e-mail; its step grows with each begin and settle.
CREATE INDEX leases_newest ON fairpost.leases (account_id, step);
ALTER TABLE fairpost.leases DROP CONSTRAINT leases_pkey;

-- Counters change with every booking.
ALTER TABLE fairpost.tallies ADD COLUMN turn bigint NOT NULL DEFAULT 0;
ALTER TABLE fairpost.tallies SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX tallies_newest ON fairpost.tallies (account_id, workspace, turn);
ALTER TABLE fairpost.tallies DROP CONSTRAINT tallies_pkey;
DROP INDEX fairpost.tallies_in_trouble;
CREATE INDEX tallies_in_trouble ON fairpost.tallies (account_id, turn) WHERE bounced > 0 OR refused > 0;

ALTER TABLE fairpost.activity ADD COLUMN turn bigint NOT NULL DEFAULT 0;
CREATE INDEX activity_newest ON fairpost.activity (workspace, user_name, hour, writer, turn);
ALTER TABLE fairpost.activity DROP CONSTRAINT activity_pkey;

ALTER TABLE fairpost.measures ADD COLUMN turn bigint NOT NULL DEFAULT 0;
ALTER TABLE fairpost.measures SET (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX measures_newest ON fairpost.measures (hour, account_id, kind, tier, turn);
ALTER TABLE fairpost.measures DROP CONSTRAINT measures_pkey;
