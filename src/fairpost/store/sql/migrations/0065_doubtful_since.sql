-- Since when an e-mail is in doubt: one that is to be sent again waits a while for a look into its account's sent mail.
ALTER TABLE fairpost.doubtful ADD COLUMN since timestamptz NOT NULL DEFAULT clock_timestamp();
