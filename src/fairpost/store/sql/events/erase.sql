-- Erases a person from events. The type and time of each event are kept.

CREATE OR REPLACE FUNCTION fairpost.erase_outbox_of_email(p_email bigint, folded text, pattern text) RETURNS void
LANGUAGE sql AS $$
    UPDATE fairpost.outbox o SET address = CASE WHEN o.address <> folded THEN o.address END, params = fairpost.without(o.params, pattern)
    WHERE o.email_id = p_email AND (o.address = folded OR o.params::text ~* pattern)
$$;

-- A null `p_workspace` means all workspaces.
CREATE OR REPLACE FUNCTION fairpost.erase_outbox_of_address(p_workspace text, folded text, pattern text) RETURNS void
LANGUAGE sql AS $$
    UPDATE fairpost.outbox o SET address = NULL, params = fairpost.without(o.params, pattern)
    WHERE o.address = folded AND (p_workspace IS NULL OR o.workspace = p_workspace)
$$;
