-- Marks up to `p_limit` e-mails below these roots as claimed. `skipped` means that another claim held workspaces with more mail. In FIFO order, virtual
-- times do not change, so no sender is at a disadvantage when the order is fair again. `blocked` senders are skipped. `for_account` and the other
-- parameters are as in `take`.
DROP FUNCTION IF EXISTS fairpost.pick(fairpost.branch[], bigint, bigint, integer, timestamptz, boolean);
CREATE OR REPLACE FUNCTION fairpost.pick(
    roots fairpost.branch[], for_account bigint[], for_epoch bigint[], p_used integer, p_limit integer, blocked text[], p_now timestamptz, p_fifo boolean,
    OUT ids bigint[], OUT skipped boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    rounds_max CONSTANT integer := 20;
    chosen record;
    got record;
BEGIN
    ids := '{}';
    skipped := false;
    IF blocked <> '{}' AND NOT p_fifo THEN
        PERFORM fairpost.take_along(roots, blocked);
    END IF;
    FOR round IN 1..rounds_max LOOP
        EXIT WHEN cardinality(ids) >= p_limit;
        IF p_fifo THEN
            chosen := fairpost.in_order(roots, p_limit - cardinality(ids), p_now, blocked);
        ELSE
            chosen := fairpost.choose(roots, p_limit - cardinality(ids), blocked);
        END IF;
        skipped := coalesce(chosen.skipped, skipped);
        EXIT WHEN chosen.branches IS NULL;
        got := fairpost.take(chosen.branches, for_account, for_epoch, p_used + cardinality(ids), p_now, p_fifo);
        ids := ids || got.ids;
        IF NOT got.moved THEN
            skipped := true;   -- all candidates are locked by cancellations that are not yet committed
            EXIT;
        END IF;
    END LOOP;
END $$;
