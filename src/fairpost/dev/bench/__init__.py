"""Benchmarks of the core, on a database of their own beside the configured one. They print figures; no test depends on one."""
