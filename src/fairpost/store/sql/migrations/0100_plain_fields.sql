-- The fields of a plain e-mail, read from its JSON at once: see is_plain.
CREATE TYPE fairpost.plain_fields AS (
    "to"            text,
    "from"          text,
    subject         text,
    text            text,
    html            text,
    workspace       text,
    "user"          text,
    stream          text,
    class           text,
    pool            text,
    account         text,
    due_at          text,
    on_doubt        text,
    idempotency_key text
);
