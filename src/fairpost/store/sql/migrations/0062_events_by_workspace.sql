-- A workspace reads its own events, however many the others have. See docs/decisions/0035-events-by-workspace.md.
CREATE INDEX outbox_by_workspace ON fairpost.outbox (workspace, id);
