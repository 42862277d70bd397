"""Secrets at rest: the master key, the secrets that it seals, and its rotation. The caller stores the sealed
secrets.
"""
