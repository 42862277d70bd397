-- Senders that are blocked on one account, and the counts by which somebody is blamed for what bounces or is refused.

-- A blocked workspace sends nothing through this account; other accounts of the pool serve it as before.
CREATE TABLE fairpost.blocks (
    account_id bigint NOT NULL REFERENCES fairpost.accounts ON DELETE CASCADE,
    workspace  text NOT NULL,
    since      timestamptz NOT NULL,
    until      timestamptz NOT NULL,                  -- infinity: until a person ends it
    reason     text NOT NULL CHECK (reason IN ('bounces', 'refusals')),
    params     jsonb NOT NULL,                        -- the sender's own figures
    PRIMARY KEY (account_id, workspace)
);
CREATE INDEX blocks_by_workspace ON fairpost.blocks (workspace);
ALTER TABLE fairpost.blocks ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_workspace ON fairpost.blocks USING (workspace = (SELECT current_setting('fairpost.workspace', true)));

-- Only what was counted in the present sample counts; a resume begins the next. `accepts`: in how many bookings something was accepted, so that it can be told what
-- came after it.
ALTER TABLE fairpost.leases
    ADD COLUMN sample  bigint NOT NULL DEFAULT 0,
    ADD COLUMN accepts bigint NOT NULL DEFAULT 0;

-- All counts begin anew with the sample; `sent` and `bounced` with the account's day, too.
ALTER TABLE fairpost.tallies
    ADD COLUMN since          timestamptz NOT NULL DEFAULT now(),            -- its first e-mail through this account
    ADD COLUMN accepted       bigint NOT NULL DEFAULT 0,                     -- e-mails, ever
    ADD COLUMN sample         bigint NOT NULL DEFAULT 0,
    ADD COLUMN refused        integer NOT NULL DEFAULT 0,                    -- since one of its own was accepted
    ADD COLUMN refused_since  timestamptz,
    ADD COLUMN refused_mark   bigint NOT NULL DEFAULT 0,                     -- the lease's `accepts` at the first of them
    ADD COLUMN streak         integer NOT NULL DEFAULT 0,                    -- those of them since anybody's was accepted
    ADD COLUMN streak_mark    bigint NOT NULL DEFAULT 0,
    ADD COLUMN refusal        text;                                          -- what was said last
CREATE INDEX tallies_in_trouble ON fairpost.tallies (account_id) WHERE bounced > 0 OR refused > 0;
