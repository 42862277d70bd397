"""Simulates days in minutes: the real database and the real workers, with a clock that is moved manually."""
