-- Labels that callers attach to an e-mail for their own use: type, tags and metadata.

-- The number under which an e-mail is indexed for one of its tags. Two tags may have the same number, so a search also compares the tags themselves.
CREATE OR REPLACE FUNCTION fairpost.tag_mark(workspace text, name text, value text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended(workspace || E'\x1f' || name || E'\x1f' || value, 0)
$$;

-- Stores the labels of new e-mails. For each e-mail, the caller passes its workspace and a validated object that may contain type, tags and metadata.
CREATE OR REPLACE FUNCTION fairpost.add_labels(p_ids bigint[], p_workspaces text[], p_given jsonb[]) RETURNS void
LANGUAGE sql AS $$
    WITH labelled AS (
        INSERT INTO fairpost.labels (email_id, workspace, type, tags, metadata)
        SELECT l.id, l.workspace, l.type, l.tags, l.metadata
        FROM (SELECT n.id, n.workspace, n.given ->> 'type' AS type, nullif(nullif(n.given -> 'tags', 'null'), '{}') AS tags, nullif(nullif(n.given -> 'metadata', 'null'), '{}') AS metadata
              FROM unnest(p_ids, p_workspaces, p_given) n(id, workspace, given)) l
        WHERE num_nonnulls(l.type, l.tags, l.metadata) > 0
        RETURNING email_id, workspace, tags
    )
    INSERT INTO fairpost.tag_marks (mark, email_id)
    SELECT DISTINCT fairpost.tag_mark(l.workspace, t.key, t.value), l.email_id FROM labelled l CROSS JOIN LATERAL jsonb_each_text(l.tags) t
$$;

-- Erases a person from the labels. `p_whole` means that the e-mail was addressed to this person only. In that case, only the type is kept. Otherwise
-- only the address is removed.
CREATE OR REPLACE FUNCTION fairpost.erase_labels(p_email bigint, p_whole boolean, pattern text) RETURNS void
LANGUAGE sql AS $$
    UPDATE fairpost.labels l SET tags = CASE WHEN NOT p_whole THEN fairpost.without(l.tags, pattern) END, metadata = CASE WHEN NOT p_whole THEN fairpost.without(l.metadata, pattern) END
    WHERE l.email_id = p_email AND (p_whole OR l.tags::text ~* pattern OR l.metadata::text ~* pattern);
    DELETE FROM fairpost.tag_marks m WHERE m.email_id = p_email AND NOT EXISTS (
        SELECT FROM fairpost.labels l CROSS JOIN LATERAL jsonb_each_text(l.tags) t WHERE l.email_id = p_email AND fairpost.tag_mark(l.workspace, t.key, t.value) = m.mark);
$$;
