"""Secrets at rest: the master key, what it seals, and its rotation. Where sealed text is stored is not known here."""
