-- Campaign progress. Engines measure progress periodically and store it as a few hundred points per campaign.

CREATE OR REPLACE FUNCTION fairpost.progress_lock() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 7307497709780103027 $$;

-- Counts the e-mails of each campaign that is due for a count, and stops after about the given number of seconds. Only one process counts at a time;
-- concurrent calls do nothing. Returns the number of campaigns counted. A running campaign is counted every minute, or less often if counting is
-- slow, so that counting takes at most 1% of the time. An inactive campaign is counted when its state changes, or every ten minutes. A finished
-- campaign is counted once more.
CREATE OR REPLACE FUNCTION fairpost.count_campaigns(p_seconds_max double precision DEFAULT 1, p_now timestamptz DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    begun_at CONSTANT timestamptz := clock_timestamp();
    due bigint;
    n integer := 0;
BEGIN
    IF NOT pg_try_advisory_xact_lock(fairpost.progress_lock()) THEN
        RETURN 0;
    END IF;
    FOR due IN
        SELECT c.id FROM fairpost.campaigns c LEFT JOIN fairpost.campaign_snapshots s ON s.campaign_id = c.id
        WHERE c.launched_at IS NOT NULL
        AND (s.campaign_id IS NULL OR s.next_at <= coalesce(p_now, begun_at) OR s.state <> c.state OR s.finished_at IS DISTINCT FROM c.finished_at)
        ORDER BY s.next_at NULLS FIRST, c.id
    LOOP
        PERFORM fairpost.count_campaign(due, p_now);
        n := n + 1;
        EXIT WHEN clock_timestamp() > begun_at + make_interval(secs => p_seconds_max);
    END LOOP;
    RETURN n;
END $$;

-- Counts a campaign's e-mails. Counts the e-mails in the queue and in history in a single statement, so an e-mail that moves from the queue to
-- history in the meantime is counted only once. `sent` counts the sent e-mails in history. Needs the indexes emails_of_campaign and
-- queue_of_campaign.
CREATE OR REPLACE FUNCTION fairpost.snapshot_of(p_campaign bigint, p_at timestamptz)
RETURNS TABLE (sent bigint, missed bigint, waiting bigint, steps jsonb, accounts jsonb)
LANGUAGE plpgsql STABLE SET search_path = fairpost, pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY WITH held AS MATERIALIZED (
        SELECT x.step, x.state::text, CASE x.state WHEN 'sent' THEN 'sent' ELSE 'missed' END AS kind, x.account_id, x.n FROM (
            SELECT e.step, e.state, e.account_id, count(*) AS n FROM fairpost.emails e WHERE e.campaign_id = p_campaign GROUP BY 1, 2, 3) x
        UNION ALL
        SELECT x.step, x.state, 'waiting', coalesce(x.account_id, a.id), x.n FROM (
            SELECT q.step, q.route, CASE WHEN q.waiting THEN NULL ELSE q.account_id END AS account_id,
                   CASE WHEN q.state <> 'waiting' THEN q.state::text WHEN q.parked_due IS NOT NULL THEN 'parked'
                        WHEN q.due_at = 'infinity' THEN 'to_follow' WHEN q.due_at > p_at THEN 'scheduled' ELSE 'ready' END AS state, count(*) AS n
            FROM fairpost.queue q WHERE q.campaign_id = p_campaign GROUP BY 1, 2, 3, 4) x LEFT JOIN fairpost.accounts a ON x.route = '@' || a.name
    )
    SELECT (SELECT coalesce(sum(h.n) FILTER (WHERE h.kind = 'sent'), 0)::bigint FROM held h), (SELECT coalesce(sum(h.n) FILTER (WHERE h.kind = 'missed'), 0)::bigint FROM held h),
           (SELECT coalesce(sum(h.n) FILTER (WHERE h.kind = 'waiting'), 0)::bigint FROM held h),
           coalesce((SELECT jsonb_agg(jsonb_build_array(s.step, s.state, s.n) ORDER BY s.step, s.state) FROM (
               SELECT h.step, h.state, sum(h.n) AS n FROM held h GROUP BY 1, 2) s), '[]'),
           coalesce((SELECT jsonb_agg(jsonb_build_array(s.account_id, s.kind, s.n) ORDER BY s.account_id, s.kind) FROM (
               SELECT h.account_id, h.kind, sum(h.n) AS n FROM held h GROUP BY 1, 2) s), '[]');
END $$;

-- Counts the e-mails in one campaign and stores the result.
CREATE OR REPLACE FUNCTION fairpost.count_campaign(p_campaign bigint, p_now timestamptz DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    c CONSTANT fairpost.campaigns := (SELECT x FROM fairpost.campaigns x WHERE x.id = p_campaign);
    before CONSTANT fairpost.campaign_snapshots := (SELECT s FROM fairpost.campaign_snapshots s WHERE s.campaign_id = p_campaign);
    begun_at CONSTANT timestamptz := clock_timestamp();
    after fairpost.campaign_snapshots;
    is_over boolean;
BEGIN
    IF c.id IS NULL THEN
        RETURN;   -- removed in the meantime
    END IF;
    after.campaign_id := c.id;
    after.at := coalesce(p_now, begun_at);
    after.state := c.state;
    after.finished_at := c.finished_at;
    SELECT n.sent, n.missed, n.waiting, n.steps, n.accounts INTO after.sent, after.missed, after.waiting, after.steps, after.accounts
    FROM fairpost.snapshot_of(c.id, after.at) n;
    after.sent := greatest(after.sent, before.sent);   -- e-mails that were dropped from history still count as sent
    is_over := c.finished_at IS NOT NULL;
    after.next_at := after.at + greatest(CASE WHEN c.state = 'running' THEN interval '1 minute' ELSE interval '10 minutes' END, 100 * (clock_timestamp() - begun_at));
    IF is_over AND after.waiting = 0 THEN
        after.next_at := 'infinity';
    END IF;
    INSERT INTO fairpost.campaign_snapshots AS s (campaign_id, at, sent, missed, waiting, steps, accounts, state, finished_at, next_at)
    VALUES (c.id, after.at, after.sent, after.missed, after.waiting, after.steps, after.accounts, after.state, after.finished_at, after.next_at)
    ON CONFLICT (campaign_id) DO UPDATE SET at = excluded.at, sent = excluded.sent, missed = excluded.missed, waiting = excluded.waiting, steps = excluded.steps,
        accounts = excluded.accounts, state = excluded.state, finished_at = excluded.finished_at, next_at = excluded.next_at;
    PERFORM fairpost.draw_progress(c, before, after, is_over);
END $$;

-- Adds a point if the counts have changed and the last point is old enough. If there was an idle period before that point, also marks its end, so
-- that a night without sending does not look like slow sending.
CREATE OR REPLACE FUNCTION fairpost.draw_progress(c fairpost.campaigns, before fairpost.campaign_snapshots, after fairpost.campaign_snapshots, is_over boolean) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    every CONSTANT interval := make_interval(secs => coalesce(before.every_s, 60));
    last fairpost.campaign_progress;
BEGIN
    IF before.campaign_id IS NULL THEN
        INSERT INTO fairpost.campaign_progress VALUES (c.id, least(c.launched_at, after.at), 0, 0);
    END IF;
    SELECT * INTO last FROM fairpost.campaign_progress p WHERE p.campaign_id = c.id ORDER BY p.at DESC LIMIT 1;
    IF (after.sent, after.missed) IS DISTINCT FROM (last.sent, last.missed) AND (before.sent, before.missed) = (last.sent, last.missed) AND before.at >= last.at + every THEN
        INSERT INTO fairpost.campaign_progress VALUES (c.id, before.at, before.sent, before.missed) RETURNING * INTO last;
    END IF;
    IF is_over OR (after.sent, after.missed) IS DISTINCT FROM (last.sent, last.missed) AND after.at >= last.at + every THEN
        INSERT INTO fairpost.campaign_progress AS p VALUES (c.id, greatest(CASE WHEN is_over THEN c.finished_at ELSE after.at END, last.at), after.sent, after.missed)
        ON CONFLICT (campaign_id, at) DO UPDATE SET sent = excluded.sent, missed = excluded.missed;
        PERFORM fairpost.thin_progress(c.id);
    END IF;
END $$;

-- If there are more than 600 points, doubles the interval between points and keeps only one point for each interval. From then on, points are added
-- half as often. The first and last points are kept.
CREATE OR REPLACE FUNCTION fairpost.thin_progress(p_campaign bigint) RETURNS void
LANGUAGE plpgsql SET search_path = fairpost, pg_catalog, pg_temp AS $$
DECLARE
    most CONSTANT integer := 600;
    wider_s bigint;
BEGIN
    WHILE (SELECT count(*) FROM fairpost.campaign_progress p WHERE p.campaign_id = p_campaign) > most LOOP
        UPDATE fairpost.campaign_snapshots s SET every_s = 2 * s.every_s WHERE s.campaign_id = p_campaign RETURNING s.every_s INTO wider_s;
        DELETE FROM fairpost.campaign_progress p USING (
            SELECT o.at, row_number() OVER (PARTITION BY floor(extract(epoch FROM o.at) / wider_s) ORDER BY o.at) AS place, max(o.at) OVER () AS last_at
            FROM fairpost.campaign_progress o WHERE o.campaign_id = p_campaign) o
        WHERE p.campaign_id = p_campaign AND p.at = o.at AND o.place > 1 AND o.at < o.last_at;
    END LOOP;
END $$;
