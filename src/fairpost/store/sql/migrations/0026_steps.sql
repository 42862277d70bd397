-- Every durable begin and settle raises the step of the account's lease. Engines remember the last one that was acknowledged: a server that has a lower
-- one has lost commits. `server`: the start of the server on which the lease may claim and begin. `deaths`: of its workers, in a row, over all engines.
ALTER TABLE fairpost.leases
    ADD COLUMN step    bigint NOT NULL DEFAULT 0,
    ADD COLUMN server  timestamptz,
    ADD COLUMN deaths  smallint NOT NULL DEFAULT 0,
    ADD COLUMN died_at timestamptz;
UPDATE fairpost.leases l SET server = pg_postmaster_start_time() WHERE l.owner IS NOT NULL;   -- engines may be at work right now

-- One row: which server the engines have confirmed, and which one waits for their word, since when. See release/server.sql.
CREATE TABLE fairpost.server (
    single    boolean PRIMARY KEY DEFAULT true CHECK (single),
    confirmed timestamptz NOT NULL,
    timeline  integer,
    asked     timestamptz,
    asked_at  timestamptz
);
INSERT INTO fairpost.server (confirmed) VALUES (pg_postmaster_start_time());

-- The server about which this engine was asked, and has not answered yet. `heir`: it is dead, and this one on the same machine answers for it.
ALTER TABLE fairpost.engines ADD COLUMN asked timestamptz, ADD COLUMN heir text;

-- Engines that did not answer: their word ends the pause.
ALTER TABLE fairpost.pauses ADD COLUMN waits_for text[];

-- Of accounts that were removed: an engine that remembers one of them must not take it for a commit that is missing.
CREATE TABLE fairpost.removed_accounts (
    account_id bigint PRIMARY KEY
);
