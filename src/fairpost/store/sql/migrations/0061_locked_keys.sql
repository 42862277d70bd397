-- When an engine could last not open a key that signs: the mail of its domain waits meanwhile. No engine clears it: it grows old once the key opens again.
ALTER TABLE fairpost.dkim_keys ADD COLUMN locked_at timestamptz;
