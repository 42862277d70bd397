"""Benchmarks of the core, which use a separate database next to the configured one. They print figures. No test depends
on these figures.
"""
