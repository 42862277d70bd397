-- The wall of 0011 around what came after it.

ALTER TABLE fairpost.portal_overrides ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.portal_overrides USING (workspace = (SELECT current_setting('fairpost.workspace', true)));
ALTER TABLE fairpost.suppression_hashes ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.suppression_hashes USING (workspace = (SELECT current_setting('fairpost.workspace', true)));

-- A workspace's own list by the alphabet, whoever else is on it.
CREATE INDEX suppressions_by_workspace ON fairpost.suppressions (workspace, address);

-- What the operator has stopped, only he lets go again.
ALTER TABLE fairpost.accounts ADD COLUMN is_stopped_by_operator boolean NOT NULL DEFAULT false;

-- Nobody's but the owner's: no policy shows a row of them to anybody else.
ALTER TABLE fairpost.people ENABLE ROW LEVEL SECURITY;
ALTER TABLE fairpost.invitations ENABLE ROW LEVEL SECURITY;
ALTER TABLE fairpost.sign_ins ENABLE ROW LEVEL SECURITY;
ALTER TABLE fairpost.sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE fairpost.sign_in_attempts ENABLE ROW LEVEL SECURITY;
ALTER TABLE fairpost.salts ENABLE ROW LEVEL SECURITY;
ALTER TABLE fairpost.directory ENABLE ROW LEVEL SECURITY;
ALTER TABLE fairpost.shares ENABLE ROW LEVEL SECURITY;
ALTER TABLE fairpost.inbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE fairpost.attachments ENABLE ROW LEVEL SECURITY;
ALTER TABLE fairpost.idempotency_keys ENABLE ROW LEVEL SECURITY;
