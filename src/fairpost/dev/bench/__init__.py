"""Benchmarks of the core. They use a separate database next to the configured one and print figures that no test
depends on.
"""
