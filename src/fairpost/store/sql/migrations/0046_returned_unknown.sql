-- The newest of what came back for no e-mail that is known are kept: anybody can write to a bounce address.
CREATE INDEX returned_unknown ON fairpost.returned (id) WHERE email_id IS NULL;
