-- What is forgotten: months of history, and single persons. And what is remembered of them all the same.

-- One row: mixed into every hash of an address, so that lists of hashes made elsewhere say nothing here.
CREATE TABLE fairpost.salts (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    salt   bytea NOT NULL DEFAULT decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')
);
INSERT INTO fairpost.salts DEFAULT VALUES;

-- Of the suppression list: who was erased, and must not be written to again all the same.
CREATE TABLE fairpost.suppression_hashes (
    workspace    text NOT NULL,           -- '*': everybody's
    address_hash bytea NOT NULL,          -- of the folded address
    kind         fairpost.suppression_kind NOT NULL,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (address_hash, workspace)
);

-- Who uses a content that is not his own. The steps of a campaign keep theirs, so its e-mails need not be listed.
CREATE INDEX queue_of_content ON fairpost.queue (content_id) WHERE content_id <> id AND campaign_id IS NULL;
CREATE INDEX emails_of_content ON fairpost.emails (content_id) WHERE content_id <> id AND campaign_id IS NULL;
