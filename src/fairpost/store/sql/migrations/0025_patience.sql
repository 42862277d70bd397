-- Beside an unsubscribe, which stops bulk mail alone, another word about the same address stopped everything.
ALTER TABLE fairpost.suppressions ADD COLUMN also_urgent boolean NOT NULL DEFAULT false;
ALTER TABLE fairpost.suppression_hashes ADD COLUMN also_urgent boolean NOT NULL DEFAULT false;

-- Since when an account is suspended: mail that only it may send waits that long, and not for ever.
ALTER TABLE fairpost.leases ADD COLUMN suspended_at timestamptz;
UPDATE fairpost.leases l SET suspended_at = clock_timestamp() FROM fairpost.accounts a WHERE a.id = l.account_id AND a.status = 'suspended';

-- One row: how long. What the newest engine's settings say; kept here so that everybody who tells it tells what the engines do.
CREATE TABLE fairpost.patience (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    urgent interval NOT NULL DEFAULT '24 hours',
    bulk   interval NOT NULL DEFAULT '7 days'
);
INSERT INTO fairpost.patience DEFAULT VALUES;

-- Whether a follow-up has a subject of its own. Those that were written before have; from now on one that does not insist keeps the first step's.
ALTER TABLE fairpost.sequence_steps ADD COLUMN own_subject boolean NOT NULL DEFAULT true;
ALTER TABLE fairpost.sequence_steps ALTER COLUMN own_subject SET DEFAULT false;
ALTER TABLE fairpost.campaign_steps ADD COLUMN own_subject boolean NOT NULL DEFAULT true;
ALTER TABLE fairpost.campaign_steps ALTER COLUMN own_subject SET DEFAULT false;

-- What was served by arrival is counted apart from now on; what was counted before goes by the setting of today, as it did.
DO $$
BEGIN
    IF to_regprocedure('fairpost.is_fair(text, smallint)') IS NOT NULL THEN
        EXECUTE $sql$UPDATE fairpost.activity a SET writer = a.writer || ' fifo' FROM fairpost.fairness f
                     WHERE f.share < 100 AND left(a.writer, 1) = '#' AND NOT fairpost.is_fair(a.workspace, f.share)$sql$;
    END IF;
END $$;

-- When it happened that stirred a user, and what began the throttle that he is under: the time to detect abuse counts from there.
ALTER TABLE fairpost.stirs ADD COLUMN at timestamptz NOT NULL DEFAULT now();
CREATE TABLE fairpost.offences (
    workspace text NOT NULL,
    user_name text NOT NULL,
    at        timestamptz NOT NULL,
    PRIMARY KEY (workspace, user_name)
);
ALTER TABLE fairpost.offences ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.offences USING (workspace = (SELECT current_setting('fairpost.workspace', true)));
