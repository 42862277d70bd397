-- A report of a dead address that one report does not confirm: the second suppresses it.
ALTER TABLE fairpost.returned DROP CONSTRAINT returned_effect_check;
ALTER TABLE fairpost.returned ADD CONSTRAINT returned_effect_check CHECK (effect IN (
    'bounced', 'unconfirmed', 'full', 'undelivered', 'delayed', 'delivered', 'complained', 'feedback', 'away', 'unsubscribed', 'replied')) NOT VALID;
