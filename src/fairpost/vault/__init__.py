"""Secrets at rest: the master key, what it seals, and its rotation. This package does not know where they are stored."""
