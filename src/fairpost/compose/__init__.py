"""An e-mail as bytes: headers, body and envelope, ready for whoever speaks SMTP. No I/O, no clock, no chance.

The standard library's composer is right but takes milliseconds. Here the bytes are put together directly; the tests
hold them against two parsers.
"""

from fairpost.compose.errors import Uncomposable
from fairpost.compose.message import Prepared, compose, prepare

__all__ = ["Prepared", "Uncomposable", "compose", "prepare"]
