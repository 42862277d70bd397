-- What an account may send, and why it may not: by its own limits, its provider's, its warm-up, its bounces.
ALTER TABLE fairpost.accounts
    ADD COLUMN provider           text,
    ADD COLUMN status_until       timestamptz,                    -- when it is active again by itself; null: when a person says so
    ADD COLUMN gap_max_ms         integer,                        -- the pause is random, from delay_ms to this
    ADD COLUMN daily_mode         text NOT NULL DEFAULT 'anchored' CHECK (daily_mode IN ('calendar', 'anchored', 'sliding')),
    ADD COLUMN units_per_minute   integer CHECK (units_per_minute > 0),
    ADD COLUMN units_per_send     integer NOT NULL DEFAULT 1 CHECK (units_per_send > 0),
    ADD COLUMN warm_up            jsonb,                          -- {"start", "step"} or {"days"}
    ADD COLUMN bounce_percent_max double precision DEFAULT 5 CHECK (bounce_percent_max >= 0),
    ADD COLUMN bounce_sample_min  integer NOT NULL DEFAULT 20 CHECK (bounce_sample_min > 0),
    ADD COLUMN cool_down_s        integer CHECK (cool_down_s > 0),
    ADD CONSTRAINT accounts_gap CHECK (gap_max_ms >= delay_ms),
    ADD CONSTRAINT accounts_units CHECK (units_per_send <= units_per_minute);

ALTER TABLE fairpost.leases
    ADD COLUMN gap_roll    double precision NOT NULL DEFAULT 0,
    ADD COLUMN warm_day    integer NOT NULL DEFAULT 1,
    ADD COLUMN rest_until  timestamptz,
    ADD COLUMN rest_reason text,
    ADD COLUMN rest_detail text;

-- Single sends of accounts with a limit that counts back from the moment itself, for a day.
CREATE TABLE fairpost.charges (
    account_id bigint NOT NULL REFERENCES fairpost.accounts ON DELETE CASCADE,
    at         timestamptz NOT NULL,
    email_id   bigint NOT NULL,
    units      integer NOT NULL,
    PRIMARY KEY (account_id, at, email_id)
);

-- What each workspace sent through each account on one of its days, and what of it bounced.
CREATE TABLE fairpost.tallies (
    account_id bigint NOT NULL REFERENCES fairpost.accounts ON DELETE CASCADE,
    workspace  text NOT NULL,
    day        timestamptz NOT NULL,      -- when the account's day began
    sent       integer NOT NULL,
    bounced    integer NOT NULL,
    PRIMARY KEY (account_id, workspace)
);

-- Every change of a status is told, with its reason, whoever made it.
CREATE FUNCTION fairpost.log_status() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO fairpost.events (at, kind, subject, detail)
    VALUES (clock_timestamp(), 'account_' || NEW.status, NEW.name,
            jsonb_strip_nulls(jsonb_build_object('reason', NEW.status_reason, 'until', NEW.status_until, 'before', OLD.status)));
    RETURN NULL;
END $$;

CREATE TRIGGER log_status AFTER UPDATE OF status ON fairpost.accounts FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION fairpost.log_status();

-- The e-mail before this one in the same conversation.
ALTER TABLE fairpost.queue ADD COLUMN follows bigint;
ALTER TABLE fairpost.emails ADD COLUMN follows bigint;
