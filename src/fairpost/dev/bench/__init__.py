"""Benchmarks of the core. The benchmarks use a separate database next to the configured one, and print figures that no
test depends on.
"""
