-- The product's own e-mails in a workspace's own words. Fields, layout and urgency stay those of the files.

CREATE TABLE fairpost.portal_overrides (
    workspace  text NOT NULL,
    portal     text NOT NULL CHECK (portal ~ '^[a-z][a-z0-9_]{0,63}$'),
    type       text NOT NULL CHECK (type ~ '^[a-z][a-z0-9_]{0,63}$'),
    subject    text NOT NULL,
    preheader  text,                                               -- null: that of the files
    text_body  text NOT NULL,
    html_body  text NOT NULL,
    revision   bigint GENERATED ALWAYS AS IDENTITY,                -- another one with every change: processes keep what they compiled by it
    changed_at timestamptz NOT NULL,
    changed_by text,                                               -- who, where that was said
    PRIMARY KEY (workspace, portal, type)
);
