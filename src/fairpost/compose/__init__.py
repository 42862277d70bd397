"""Converts an e-mail to bytes: headers, body and envelope, ready for SMTP. It uses no I/O, clock or randomness.

The standard library's composer is correct but takes several milliseconds per e-mail. This composer assembles the bytes
directly; the tests check them with two parsers.
"""

from fairpost.compose.errors import Uncomposable
from fairpost.compose.message import Prepared, compose, prepare

__all__ = ["Prepared", "Uncomposable", "compose", "prepare"]
