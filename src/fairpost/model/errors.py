"""All errors that this package raises on purpose.

Expected outcomes, such as a refused recipient or a full quota, are values and do not belong here.
"""

from datetime import datetime

from fairpost.model.reason import Reason, Value


class FairpostError(Exception):
    """Base class of all our errors.

    `message` describes what happened. `next_step` is the next step as a code, which the front end renders.
    """

    passes = False  # True if the error is temporary, so waiting helps
    next_step: Reason | None = None

    def __init__(self, message: str = "", *, next_step: Reason | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step


class Refusal(FairpostError):
    """A request was refused, and nothing was changed. Front ends render its reason."""

    def __init__(self, code: str, /, **params: Value) -> None:
        super().__init__(code)
        self.reason = Reason(code, **params)


class CursorExpired(FairpostError):
    """Events after the cursor were dropped, so the cursor's reader has missed some events."""


class EmbeddedServerError(FairpostError):
    """The embedded PostgreSQL cannot be found, started, stopped or trusted."""


class ServerStopped(EmbeddedServerError):
    """The embedded PostgreSQL was stopped on purpose and is not restarted automatically."""

    passes = True


class InvalidEmail(FairpostError):
    """An e-mail was refused, and nothing was written. `field` names the invalid field.

    If a quota was exceeded, `until` is the time from which the e-mail can be accepted.
    """

    def __init__(self, field: str, message: str, until: datetime | None = None) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message
        self.until = until


class MigrationError(FairpostError):
    """The database does not have the schema that this version needs."""


class Outgrown(MigrationError):
    """The database was created by a newer version."""


class NotInstalled(FairpostError):
    """An optional feature's packages are not installed. The message includes the command that installs them."""


class NotFound(FairpostError):
    """No object has the given name."""


class Unknown(Refusal, NotFound):
    """NotFound with a code from the catalogue."""


class SettingsError(FairpostError):
    """A setting is invalid. The message names the key, the rule and the value."""


class VaultError(FairpostError):
    """A key or a sealed secret cannot be used. The operator must fix the problem; the account is not to blame."""


class KeysChanged(VaultError):
    """The key was rotated while a secret was being sealed. Nothing was written."""


class ChangedMeanwhile(FairpostError):
    """A conflicting update came first. Nothing was written."""


class TransportFault(FairpostError):
    """A transport raised an exception instead of returning a report, which is a bug. The e-mail being sent is in doubt."""


class DatabaseUnavailable(FairpostError):
    """PostgreSQL is not responding or cannot execute a request."""

    def __init__(self, message: str, *, passes: bool = True, next_step: Reason | None = None) -> None:
        super().__init__(message, next_step=next_step)
        self.passes = passes


class Unconfirmed(DatabaseUnavailable):
    """The responding server is not the one that the engines confirmed, or it is missing one of this worker's steps."""


class RegionUnavailable(DatabaseUnavailable):
    """One region's database is not responding. Other regions are not affected."""

    def __init__(self, region: str, why: str, *, passes: bool = True) -> None:
        step = Reason("step.list_regions")
        super().__init__(f"Region {region} is not responding: {why}.", passes=passes, next_step=step)
        self.region = region
