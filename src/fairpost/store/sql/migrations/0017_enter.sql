-- Links made on the server that sign an admin in.

ALTER TABLE fairpost.invitations DROP CONSTRAINT invitations_purpose_check;
ALTER TABLE fairpost.invitations ADD CONSTRAINT invitations_purpose_check CHECK (purpose IN ('invite', 'reset', 'setup', 'enter'));

-- What a page shows with every change follows from the session's own token: nothing of it need be kept.
ALTER TABLE fairpost.sessions DROP COLUMN csrf_hash;
