-- Settings that a workspace chooses itself: how it appears on the pages that recipients see, and whether it launches campaigns from domains that failed a check.
CREATE TABLE fairpost.workspace_settings (
    workspace           text NOT NULL PRIMARY KEY,
    title               text CHECK (char_length(title) BETWEEN 1 AND 100 AND title !~ '[\x01-\x1f\x7f-\x9f]'),
    accent              text CHECK (accent ~ '^#[0-9a-f]{6}$'),
    logo_url            text CHECK (char_length(logo_url) <= 500 AND logo_url ~ '^https://[A-Za-z0-9.-]+(:[0-9]+)?/[!#-&(-;=?-~]*$'),
    refuses_bad_domains boolean NOT NULL DEFAULT false
);
ALTER TABLE fairpost.workspace_settings ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.workspace_settings USING (workspace = (SELECT current_setting('fairpost.workspace', true)));
