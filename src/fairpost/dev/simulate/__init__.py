"""Simulates days of sending in minutes, using the real database and the real workers on a simulated clock."""
