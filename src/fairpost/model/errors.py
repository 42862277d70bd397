"""Every error this package raises on purpose, as one tree.

Expected outcomes (a refused recipient, a full quota) are values, not errors: they do not belong here.
"""

from datetime import datetime

from fairpost.model.reason import Reason, Value


class FairpostError(Exception):
    """Base of all our errors. `message` says what happened. `then` is what to type next, for those who have a command line; `next_step` the
    same as a code, which is put into words at the edge."""

    passes = False  # by itself, so that waiting helps
    next_step: Reason | None = None

    def __init__(self, message: str = "", *, then: str = "", next_step: Reason | None = None) -> None:
        super().__init__(f"{message} {then}" if then else message)
        self.message = message
        self.then = then
        self.next_step = next_step


class Refusal(FairpostError):
    """Something cannot be done as things are, and nothing was changed. Its reason is put into words at the edge."""

    def __init__(self, code: str, /, **params: Value) -> None:
        super().__init__(code)
        self.reason = Reason(code, **params)


class EmbeddedServerError(FairpostError):
    """The embedded PostgreSQL cannot be found, started, stopped or trusted."""


class ServerStopped(EmbeddedServerError):
    """The embedded PostgreSQL was stopped on purpose, and is not started again unasked."""

    passes = True


class InvalidEmail(FairpostError):
    """An e-mail was refused, and nothing of it was written. `field` names what is wrong with it.

    `until`: it was one too many of its user, and from this moment on there is room again.
    """

    def __init__(self, field: str, message: str, until: datetime | None = None) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message
        self.until = until


class MigrationError(FairpostError):
    """The schema in the database and the one this program knows do not fit together."""


class Outgrown(MigrationError):
    """The database was made by a newer version than this one."""


class NotInstalled(FairpostError):
    """A part of Fairpost is asked for whose packages are not installed. The message has the line that installs them."""


class NotFound(FairpostError):
    """Something was named that is not there."""


class Unknown(Refusal, NotFound):
    """The same, with a code of the catalogue."""


class SettingsError(FairpostError):
    """A setting is out of its range. The message names key, rule and value."""


class VaultError(FairpostError):
    """A key or a sealed secret cannot be used: for the operator to put right. It says nothing about the account."""


class KeysChanged(VaultError):
    """Between choosing a key and writing what it sealed, somebody rotated it. Nothing was written."""


class ChangedMeanwhile(FairpostError):
    """Somebody changed it between being seen and being written. Nothing was written."""


class TransportFault(FairpostError):
    """A transport raised, where it should have reported: a bug. What it was sending is in doubt."""


class DatabaseUnavailable(FairpostError):
    """No PostgreSQL answers where one was expected, or it cannot do what it is asked."""

    def __init__(self, message: str, *, passes: bool = True, next_step: Reason | None = None) -> None:
        super().__init__(message, next_step=next_step)
        self.passes = passes


class Unconfirmed(DatabaseUnavailable):
    """The server that answers is not the one that the engines have confirmed, or a step of this worker was not taken on it."""


class RegionUnavailable(DatabaseUnavailable):
    """The database of one region does not answer. The others are not touched by that."""

    def __init__(self, region: str, why: str, *, passes: bool = True) -> None:
        step = Reason("step.list_regions")
        super().__init__(f"Region {region} does not answer: {why}.", passes=passes, next_step=step)
        self.region = region
