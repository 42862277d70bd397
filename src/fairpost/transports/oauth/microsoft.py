"""Gets tokens from Microsoft through msal for an application that sends on its own behalf, or for a person who gave
consent. msal itself caches tokens and refusals. Each fetch therefore uses a new application object, so that Fairpost's
cache is the only one.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NotRequired, TypedDict, Unpack
from urllib.parse import urlsplit

from fairpost.system import clock
from fairpost.transports.oauth.errors import Refused, Unreachable
from fairpost.transports.oauth.http import TokenHttp, require_safe
from fairpost.transports.oauth.public import MICROSOFT
from fairpost.transports.oauth.sanitizer import shown
from fairpost.transports.oauth.secrets import RefreshSecret, read_refresh_secret
from fairpost.transports.oauth.tokens import AccessToken, KeptTokens

APPLICATION_SCOPES = ("https://outlook.office365.com/.default",)  # all granted permissions: SMTP.SendAsApp
PERSON_SCOPES = ("https://outlook.office.com/SMTP.Send",)  # msal adds offline_access itself
READING_SCOPES = ("https://outlook.office.com/IMAP.AccessAsUser.All",)

_SECRETS = "Entra admin center → App registrations → {client_id} → Certificates & secrets"
_NEW_SECRET = (
    f"Create a new client secret ({_SECRETS}) and set its value, not its ID: fairpost account set NAME --ask-password"
)
_CONNECT = (
    "Connect the account again: "
    "fairpost account set NAME --oauth microsoft --tenant {tenant} --client-id {client_id} --refresh-token-file FILE"
)
_PERMISSIONS = "Entra admin center → App registrations → {client_id} → API permissions"
_SIGN_INS = "The policy is shown under Entra admin center → Sign-in logs"

# Advice by the number after AADSTS. Numbers may change. Codes that are not listed here are shown with Microsoft's own
# text.
ADVICE: Mapping[int, str] = {
    90002: "There is no tenant {tenant}. Copy the directory (tenant) ID from Entra's Overview page.",
    900023: "{tenant} is not a tenant ID or domain. Copy the directory (tenant) ID from Entra's Overview page.",
    700016: "The application {client_id} is not in the tenant {tenant}. Check both IDs on its page in App registrations.",
    700038: "{client_id} is not an application ID. Copy the application (client) ID from its page in App registrations.",
    7000112: "The application {client_id} is disabled. Enable it: Entra admin center → Enterprise applications → Properties.",
    7000215: f"The client secret is wrong. {_NEW_SECRET}",
    7000218: f"The application {{client_id}} needs a client secret. {_NEW_SECRET}",
    7000222: f"The client secret has expired. {_NEW_SECRET}",
    50034: "There is no such user in tenant {tenant}. Check that the mailbox belongs to this tenant.",
    50053: "The user is locked after too many attempts or is signing in from a blocked address. Wait, or unlock the user in Entra.",
    50055: f"The user's password has expired. Change it, then: {_CONNECT}",
    50057: "The user is disabled. Enable it: Entra admin center → Users.",
    50105: "The user is not assigned to the application: Entra admin center → Enterprise applications → Users and groups.",
    65001: f"Consent is missing. An administrator can grant it: {_PERMISSIONS} → Grant admin consent.",
    500011: f"Tenant {{tenant}} does not have Exchange Online. Check the tenant and its permissions: {_PERMISSIONS}.",
    50076: f"Multi-factor authentication is required. {_CONNECT}",
    50079: f"The user must set up multi-factor authentication. {_CONNECT}",
    50173: f"The refresh token was revoked: the password was changed, or the sessions were ended. {_CONNECT}",
    70000: f"The refresh token was revoked or belongs to another client. {_CONNECT}",
    70008: f"The refresh token has expired or was revoked. {_CONNECT}",
    700082: f"The refresh token has expired, because it was not used for 90 days. {_CONNECT}",
    700084: f"The refresh token was issued to a single-page app and lasts a day. {_CONNECT}",
    53000: f"Conditional Access requires a managed device. Exempt this application from the policy. {_SIGN_INS}.",
    53003: f"Conditional Access blocks this sign-in. Exempt this application or this machine's address from the policy. {_SIGN_INS}.",
    530003: f"Conditional Access requires a registered device. Exempt this application from the policy. {_SIGN_INS}.",
}
PASSING = (90033, 90024)  # temporary problems at Microsoft
_TEMPORARY = ("temporarily_unavailable", "server_error")
_TRIPPED = (ValueError, LookupError, TypeError, AttributeError)  # raised by msal for an invalid configuration
_CODE = re.compile(r"AADSTS(\d+)")


class Application(TypedDict):
    client_id: str
    tenant: str
    authority: NotRequired[str | None]
    now: NotRequired[Callable[[], datetime]]


class _Microsoft(KeptTokens):
    def __init__(self, secret: str, **application: Unpack[Application]) -> None:
        super().__init__(now=application.get("now", clock.now))
        self._secret = secret
        self._client_id = application["client_id"]
        self._tenant = application["tenant"]
        self._authority = f"{(application.get('authority') or MICROSOFT).rstrip('/')}/{self._tenant}"

    def _ask(self, question: Callable[[Any], Mapping[str, Any]], secret: RefreshSecret) -> Mapping[str, Any]:
        """Calls `question` with msal's application. Raises Refused or Unreachable."""
        require_safe(self._authority)
        with TokenHttp() as http:
            try:
                said = question(self._application(http, secret.client_secret))
            except _TRIPPED as error:  # an error from the server is more specific than msal's error
                said = dict(http.last.body) if http.last is not None and "error" in http.last.body else {}
                if not said:
                    host = urlsplit(self._authority).netloc
                    raise Unreachable(f"{host} is not Microsoft's token server.") from error
        if "error" in said:
            raise self._refusal(said, secret)
        return said

    def _application(self, http: TokenHttp, client_secret: str | None) -> Any:
        import msal  # type: ignore[import-untyped] # slow to import, and only some accounts need it

        given = {"authority": self._authority, "http_client": http, "instance_discovery": False}
        if client_secret is None:
            return msal.PublicClientApplication(self._client_id, **given)
        return msal.ConfidentialClientApplication(self._client_id, client_credential=client_secret, **given)

    def _granted(self, said: Mapping[str, Any], since: datetime) -> AccessToken:
        secret, seconds = said.get("access_token"), said.get("expires_in")
        if not isinstance(secret, str) or not secret or not isinstance(seconds, int | float):
            raise Unreachable("Microsoft's token server responded without a token.")
        return self.lasting(secret, seconds=seconds, since=since)

    def _refusal(self, said: Mapping[str, Any], secret: RefreshSecret) -> Exception:
        hidden = (secret.refresh_token, secret.client_secret)
        error = shown(said["error"], *hidden)
        words = shown(str(said.get("error_description") or "").partition("Trace ID:")[0], *hidden)
        code = _code(said)
        what = f"Microsoft gave no token ({words.rstrip('.') or error})."
        if code in PASSING or error in _TEMPORARY:
            return Unreachable(what)
        advice = ADVICE.get(code, f"Look it up: https://login.microsoftonline.com/error?code={code}" if code else "")
        if not advice:
            advice = _CONNECT if error == "invalid_grant" else f"Check the application: {_PERMISSIONS}"
        return Refused(error, what, advice.format(client_id=self._client_id, tenant=self._tenant))


class MicrosoftClient(_Microsoft):
    """The application's own tokens, with the permission SMTP.SendAsApp. Exchange grants the application access to
    mailboxes.
    """

    def fetch(self) -> AccessToken:
        since = self._now()
        known = RefreshSecret(refresh_token="", client_secret=self._secret)
        said = self._ask(lambda app: app.acquire_token_for_client(list(APPLICATION_SCOPES)), known)
        return self._granted(said, since)


class MicrosoftRefreshToken(_Microsoft):
    """Tokens for a user who has given consent. `secret` is in the format of write_refresh_secret.

    Microsoft may return a new refresh token each time. The new token is used from then on and passed to `on_rotated` in
    a thread.
    """

    def __init__(
        self,
        secret: str,
        *,
        scopes: tuple[str, ...] = PERSON_SCOPES,
        # By default, the new token is ignored. The previous one remains valid until it expires, 90 days after it was
        # issued.
        on_rotated: Callable[[str], None] = lambda _: None,
        **application: Unpack[Application],
    ) -> None:
        super().__init__(secret, **application)
        self._known: RefreshSecret | None = None
        self._scopes = scopes
        self._on_rotated = on_rotated

    def fetch(self) -> AccessToken:
        self._known = known = self._known or read_refresh_secret(self._secret)
        since = self._now()
        said = self._ask(lambda app: app.acquire_token_by_refresh_token(known.refresh_token, list(self._scopes)), known)
        granted = self._granted(said, since)
        new = said.get("refresh_token")
        if isinstance(new, str) and new and new != known.refresh_token:
            self._known = replace(known, refresh_token=new)
            self._on_rotated(new)
        return granted


def _code(said: Mapping[str, Any]) -> int:
    """Returns Microsoft's error code, or 0 if there is none."""
    codes = said.get("error_codes")
    if isinstance(codes, list) and codes and isinstance(codes[0], int):
        return codes[0]
    found = _CODE.search(str(said.get("error_description")))
    return int(found[1]) if found else 0
