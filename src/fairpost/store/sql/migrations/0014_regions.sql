-- In the home database: which workspace lives in which region. The rule for names keeps addresses out of it.
CREATE TABLE fairpost.directory (
    workspace  text PRIMARY KEY CHECK (workspace ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    region     text NOT NULL CHECK (region ~ '^[a-z][a-z0-9-]{0,30}$'),
    created_at timestamptz NOT NULL
);

-- In each region: the accounts that other regions use as well, and the part of the limits that they have here.
CREATE TABLE fairpost.shares (
    account_id bigint PRIMARY KEY REFERENCES fairpost.accounts ON DELETE CASCADE,
    percent    integer NOT NULL CHECK (percent BETWEEN 1 AND 100),
    whole      jsonb NOT NULL          -- the limits of which this is the part
);
