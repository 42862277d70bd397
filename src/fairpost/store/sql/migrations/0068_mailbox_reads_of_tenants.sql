-- A workspace sees the state of its own accounts' mailboxes; rights/described.sql says which columns.
CREATE POLICY own_workspace ON fairpost.mailbox_reads
    USING (EXISTS (SELECT FROM fairpost.accounts a WHERE a.id = account_id AND a.workspace = (SELECT current_setting('fairpost.workspace', true))));
