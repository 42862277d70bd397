"""Benchmarks of the core, on a separate database next to the configured one.

They print figures. No test depends on a figure.
"""
