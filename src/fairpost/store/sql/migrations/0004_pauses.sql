-- The pause of everything, and what the database knows of itself.

-- No row, or one: looked up by every claim and every begin.
CREATE TABLE fairpost.pauses (
    everything boolean PRIMARY KEY DEFAULT true CHECK (everything),
    since      timestamptz NOT NULL,
    until      timestamptz NOT NULL,      -- infinity: until resumed
    reason     text NOT NULL,
    paused_by  text NOT NULL,
    restored   boolean NOT NULL           -- this database is not the one it was: only a person ends such a pause
);

-- One row, written at the first start. What is read of the server is null where the role may not see it.
-- Never made anew by a migration: its own oid is one of the signs by which a copy is known.
CREATE TABLE fairpost.identity (
    single            boolean PRIMARY KEY DEFAULT true CHECK (single),
    life              uuid NOT NULL DEFAULT gen_random_uuid(),   -- another after each restore that a person let pass
    system_identifier bigint,
    database_oid      bigint NOT NULL,
    table_oid         bigint NOT NULL,    -- of this table: what is loaded from a dump gets another
    timeline          integer,
    folder            text,               -- of the embedded server's files: a copy of them has another
    since             timestamptz NOT NULL
);

-- How often each engine has written to this database. The engine keeps the number, too: a database that knows a smaller
-- one has gone back in time. A hundred bytes an engine, kept for good; each row has one writer.
CREATE TABLE fairpost.witnesses (
    engine uuid PRIMARY KEY,
    name   text NOT NULL,
    beats  bigint NOT NULL,
    at     timestamptz NOT NULL
) WITH (fillfactor = 50);
