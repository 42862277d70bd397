"""Days in minutes: the real database and the real workers, in a time that is moved by hand."""
