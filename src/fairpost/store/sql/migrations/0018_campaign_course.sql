-- How campaigns come along, to be held against what was foreseen. No address, no words: nothing in it is anybody's.

-- What was sent and missed by when: at most some hundred points for each, evenly over its life, and none where nothing changed.
CREATE TABLE fairpost.campaign_course (
    campaign_id bigint NOT NULL REFERENCES fairpost.campaigns ON DELETE CASCADE,
    at          timestamptz NOT NULL,
    sent        bigint NOT NULL,
    missed      bigint NOT NULL,
    PRIMARY KEY (campaign_id, at)
);

-- How each stood when it was counted last.
CREATE TABLE fairpost.campaign_standings (
    campaign_id     bigint PRIMARY KEY REFERENCES fairpost.campaigns ON DELETE CASCADE,
    at              timestamptz NOT NULL,
    sent            bigint NOT NULL,
    missed          bigint NOT NULL,
    waiting         bigint NOT NULL,                -- everything else that it has: also what is in hand, in doubt or parked
    steps           jsonb NOT NULL,                 -- [step, state, how many]
    accounts        jsonb NOT NULL,                 -- [account, sent | missed | waiting, how many]
    state           fairpost.campaign_state NOT NULL,   -- that it was in, and when it was over
    finished_at     timestamptz,
    next_at         timestamptz NOT NULL,           -- is counted again from then on; infinity: when it moves
    every_s         bigint NOT NULL DEFAULT 60,     -- from one point of its course to the next
    outlook         jsonb,                          -- the forecast of what was left
    outlook_next_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

ALTER TABLE fairpost.campaign_course ENABLE ROW LEVEL SECURITY;
CREATE POLICY with_its_campaign ON fairpost.campaign_course USING (EXISTS (SELECT FROM fairpost.campaigns c WHERE c.id = campaign_id));
ALTER TABLE fairpost.campaign_standings ENABLE ROW LEVEL SECURITY;
CREATE POLICY with_its_campaign ON fairpost.campaign_standings USING (EXISTS (SELECT FROM fairpost.campaigns c WHERE c.id = campaign_id));

-- So that a million e-mails are counted by step, state and account from the index alone. It is no larger than before: equal keys are stored once.
DROP INDEX fairpost.emails_of_campaign;
CREATE INDEX emails_of_campaign ON fairpost.emails (campaign_id, step, state, account_id) WHERE campaign_id IS NOT NULL;

-- Who did not get it, state by state, page by page: a few who failed among a million that were cancelled; and whoever is paused.
DROP INDEX fairpost.emails_campaign_missed;
CREATE INDEX emails_campaign_missed ON fairpost.emails (campaign_id, state, id) WHERE campaign_id IS NOT NULL AND state <> 'sent';
CREATE INDEX queue_parked ON fairpost.queue (campaign_id, id) WHERE parked_due IS NOT NULL;
