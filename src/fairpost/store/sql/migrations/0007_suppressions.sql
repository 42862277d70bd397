-- Why each address is on the suppression list, in one word; and whose mailbox took nothing, how often.

-- In the order of their weight. Of two words about one address the weightier stays: who unsubscribed after a bounce is
-- not written to again because somebody cleared the bounces.
CREATE TYPE fairpost.suppression_kind AS ENUM ('soft_bounces', 'hard_bounce', 'manual', 'unsubscribe', 'complaint');

ALTER TABLE fairpost.suppressions ADD COLUMN kind fairpost.suppression_kind NOT NULL DEFAULT 'manual';
UPDATE fairpost.suppressions SET kind = 'hard_bounce' WHERE reason LIKE 'hard bounce:%';

-- E-mails in a row that were given up because the mailbox took none. Gone with the first that arrives, and with age.
CREATE TABLE fairpost.soft_bounces (
    workspace text NOT NULL,
    address   text NOT NULL,          -- folded
    count     integer NOT NULL CHECK (count > 0),
    first_at  timestamptz NOT NULL,
    last_at   timestamptz NOT NULL,
    PRIMARY KEY (workspace, address)  -- a workspace that has none is known by one look
);
CREATE INDEX soft_bounces_by_age ON fairpost.soft_bounces (last_at);

-- One row: what holds for the whole installation.
CREATE TABLE fairpost.suppression_rule (
    single           boolean PRIMARY KEY DEFAULT true CHECK (single),
    soft_bounces_max integer NOT NULL DEFAULT 5 CHECK (soft_bounces_max BETWEEN 0 AND 1000)   -- 0: never
);
INSERT INTO fairpost.suppression_rule DEFAULT VALUES;
