"""Secrets at rest: the master key, the secrets that it seals, and its rotation. Storing them is up to the caller."""
