-- Which e-mails may be in doubt, so that nobody has to look through everything that accounts hold or have held: while a transaction is held open, that is an
-- index entry for each e-mail sent since. The queue's row says whether it is so. Whatever puts an e-mail in doubt adds a row in the same commit; no key, for
-- whoever removes an old row must not remove one that was added meanwhile.
CREATE TABLE fairpost.doubtful (
    account_id bigint NOT NULL,
    email_id   bigint NOT NULL
);
CREATE INDEX doubtful_by_account ON fairpost.doubtful (account_id, email_id);
INSERT INTO fairpost.doubtful (account_id, email_id)
SELECT q.account_id, q.id FROM fairpost.queue q WHERE NOT q.waiting AND q.state = 'in_doubt';

-- From now on, a lease that was given back and still has e-mails keeps its owner: reaping looks at those alone.
UPDATE fairpost.leases l SET owner = 'unknown'
WHERE l.owner IS NULL AND EXISTS (SELECT FROM fairpost.queue q WHERE q.account_id = l.account_id AND NOT q.waiting AND q.state <> 'in_doubt');
