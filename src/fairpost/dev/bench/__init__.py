"""Benchmarks of the core. They use a separate database next to the configured one and print figures, on which no test
depends.
"""
