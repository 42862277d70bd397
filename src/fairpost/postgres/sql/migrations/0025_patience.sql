-- Beside an unsubscribe, which stops bulk mail alone, another word about the same address stopped everything.
ALTER TABLE fairpost.suppressions ADD COLUMN also_urgent boolean NOT NULL DEFAULT false;
ALTER TABLE fairpost.suppression_hashes ADD COLUMN also_urgent boolean NOT NULL DEFAULT false;
