-- What a caller says of an e-mail for its own use: type, tags and metadata. In tables of their own, by the e-mail's id: open transactions hold the queue, so it
-- gets no columns; an e-mail without labels costs nothing; and the way into history moves nothing. See docs/decisions/0033-labels-beside-the-queue.md.
CREATE TABLE fairpost.labels (
    email_id  bigint NOT NULL PRIMARY KEY,
    workspace text NOT NULL,
    type      text,
    tags      jsonb,                      -- {name: value}
    metadata  jsonb
) PARTITION BY RANGE (email_id);
CREATE INDEX labels_by_type ON fairpost.labels (workspace, type, email_id) WHERE type IS NOT NULL;
ALTER TABLE fairpost.labels ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.labels USING (workspace = (SELECT current_setting('fairpost.workspace', true)));

-- A row for each tag, in the order in which e-mails are listed. `mark`: a hash of workspace, name and value.
CREATE TABLE fairpost.tag_marks (
    mark     bigint NOT NULL,
    email_id bigint NOT NULL,
    PRIMARY KEY (mark, email_id)
) PARTITION BY RANGE (email_id);
CREATE INDEX tag_marks_of_email ON fairpost.tag_marks (email_id);   -- for erasure
ALTER TABLE fairpost.tag_marks ENABLE ROW LEVEL SECURITY;

-- What the e-mails of a campaign are labelled with: type, tags and metadata, where there are some.
ALTER TABLE fairpost.campaigns ADD COLUMN labels jsonb;
