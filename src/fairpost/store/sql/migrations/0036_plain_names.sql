-- Tables get names that say what is in them. The functions follow with the files beside this folder; those with old names go.
ALTER TABLE fairpost.clocks RENAME TO node_state;
ALTER INDEX fairpost.clocks_newest RENAME TO node_state_newest;
ALTER INDEX fairpost.clocks_active RENAME TO node_state_active;
ALTER INDEX fairpost.clocks_asleep RENAME TO node_state_asleep;
ALTER INDEX fairpost.clocks_of_routes RENAME TO node_state_of_routes;
ALTER INDEX fairpost.clocks_held RENAME TO node_state_held;
ALTER INDEX fairpost.clocks_in_order RENAME TO node_state_in_order;
ALTER TABLE fairpost.tallies RENAME TO counters;
ALTER INDEX fairpost.tallies_newest RENAME TO counters_newest;
ALTER INDEX fairpost.tallies_in_trouble RENAME TO counters_in_trouble;
ALTER TABLE fairpost.paces RENAME TO rate_buckets;
ALTER TABLE fairpost.stirs RENAME TO dirty_senders;
ALTER TABLE fairpost.witnesses RENAME TO identity_checks;
ALTER TABLE fairpost.rules RENAME TO sender_rules;
ALTER TABLE fairpost.stops RENAME TO opt_outs;
ALTER TABLE fairpost.campaign_course RENAME TO campaign_progress;
ALTER TABLE fairpost.campaign_standings RENAME COLUMN outlook TO revised_forecast;
ALTER TABLE fairpost.campaign_standings RENAME COLUMN outlook_next_at TO revised_next_at;
ALTER TABLE fairpost.campaign_standings RENAME TO campaign_snapshots;

-- Those that fold addresses stay: sessions keep the expressions of indexes with these functions in them, and would look for them until they end.
DO $$
DECLARE
    old regprocedure;
BEGIN
    FOR old IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'fairpost'::regnamespace
        AND p.proname IN ('clocks_now', 'stage', 'stage_route', 'grow', 'obey', 'lead_on', 'heed_bounces', 'lay_calendar')
    LOOP
        EXECUTE format('DROP FUNCTION %s', old);
    END LOOP;
END $$;

UPDATE fairpost.leases l SET troubles = l.troubles - 'told_off' || jsonb_build_object('throttle_count', l.troubles -> 'told_off') WHERE l.troubles ? 'told_off';
