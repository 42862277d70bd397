-- The processes that drive accounts. A row is written a few times a second at most, by its own engine alone.
CREATE TABLE fairpost.engines (
    id         text PRIMARY KEY,
    seen_at    timestamptz NOT NULL,
    asleep     boolean NOT NULL,      -- it has nothing to do: whoever enqueues a few e-mails tells it so
    started_at timestamptz NOT NULL
) WITH (fillfactor = 50);
