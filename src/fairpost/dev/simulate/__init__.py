"""Simulates days of sending in minutes, with the real database and the real workers, on a simulated clock."""
