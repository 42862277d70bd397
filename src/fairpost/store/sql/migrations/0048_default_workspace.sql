-- The workspace of e-mails that name none. It may use the pool `default`, with verified domains or the account's own address.
WITH added AS (
    INSERT INTO fairpost.workspaces (name, created_at) VALUES ('default', clock_timestamp()) ON CONFLICT DO NOTHING RETURNING name
)
INSERT INTO fairpost.loans (workspace, pool, senders) SELECT name, 'default', '{proven,account}' FROM added;
