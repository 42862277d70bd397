-- Who signs in names an address, and a workspace only where it has several.
CREATE INDEX people_of_address ON fairpost.people (folded);
