-- While no engine runs, notes pile up: what one workspace or user has waiting is found among them, not by reading all of them.
CREATE INDEX arrivals_of_users ON fairpost.arrivals (workspace, user_name);
