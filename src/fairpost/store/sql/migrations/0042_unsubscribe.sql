-- Whether a campaign's e-mails get a line to unsubscribe where their template has none. One-to-one sequences go without.
ALTER TABLE fairpost.campaigns ADD COLUMN has_footer boolean NOT NULL DEFAULT true;
