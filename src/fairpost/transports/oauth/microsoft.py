"""Microsoft's tokens, by msal: for an application that sends on its own, or for a person who allowed it.

msal keeps tokens and refusals of its own. Each fetch begins with a new one, so that what we keep is the only memory.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from fairpost.system import clock
from fairpost.transports.oauth.errors import Refused, Unreachable
from fairpost.transports.oauth.http import TokenHttp, require_safe
from fairpost.transports.oauth.public import MICROSOFT
from fairpost.transports.oauth.secrets import RefreshSecret, read_refresh_secret
from fairpost.transports.oauth.tokens import AccessToken, KeptTokens
from fairpost.transports.oauth.words import shown

APPLICATION_SCOPES = ("https://outlook.office365.com/.default",)  # what the application was granted: SMTP.SendAsApp
PERSON_SCOPES = ("https://outlook.office.com/SMTP.Send",)  # msal adds offline_access itself

_SECRETS = "Entra admin center → App registrations → {client_id} → Certificates & secrets"
_NEW_SECRET = (
    f"Make a new client secret ({_SECRETS}) and give its value, not its id: fairpost account set NAME --ask-password"
)
_CONNECT = (
    "Connect the account again: "
    "fairpost account set NAME --oauth microsoft --tenant {tenant} --client-id {client_id} --refresh-token-file FILE"
)
_PERMISSIONS = "Entra admin center → App registrations → {client_id} → API permissions"
_SIGN_INS = "Entra admin center → Sign-in logs says which policy it was"

# By the number after AADSTS. They may change: what is not here is shown with Microsoft's own words.
ADVICE: Mapping[int, str] = {
    90002: "There is no such tenant as {tenant}. Take the directory (tenant) id from the Overview page of Entra.",
    900023: "{tenant} is no tenant's id or domain. Take the directory (tenant) id from the Overview page of Entra.",
    700016: "The application {client_id} is not in the tenant {tenant}. Check both ids, on its page in App registrations.",
    700038: "{client_id} is no application's id. Take the application (client) id from its page in App registrations.",
    7000112: "The application {client_id} is disabled. Enable it: Entra admin center → Enterprise applications → Properties.",
    7000215: f"The client secret is wrong. {_NEW_SECRET}",
    7000218: f"The application {{client_id}} wants a client secret. {_NEW_SECRET}",
    7000222: f"The client secret has expired. {_NEW_SECRET}",
    50034: "There is no such user in the tenant {tenant}. Check the mailbox, and that it belongs to this tenant.",
    50053: "The user is locked after too many attempts, or logs in from a blocked address. Wait, or unlock it in Entra.",
    50055: f"The user's password has expired. Have it changed, then: {_CONNECT}",
    50057: "The user is disabled. Enable it: Entra admin center → Users.",
    50105: "The user is not assigned to the application: Entra admin center → Enterprise applications → Users and groups.",
    65001: f"Nobody has consented to it. An administrator grants it: {_PERMISSIONS} → Grant admin consent.",
    500011: f"The tenant {{tenant}} knows no Exchange Online. Check the tenant, and {_PERMISSIONS}.",
    50076: f"Another proof (MFA) is asked of the user. {_CONNECT}",
    50079: f"The user must set up another proof (MFA). {_CONNECT}",
    50173: f"The refresh token was revoked: the password was changed, or the sessions were ended. {_CONNECT}",
    70000: f"The refresh token was revoked, or is another client's. {_CONNECT}",
    70008: f"The refresh token has expired, or was revoked. {_CONNECT}",
    700082: f"The refresh token has expired, because it was not used for 90 days. {_CONNECT}",
    700084: f"The refresh token was issued to a single-page app, and lasts a day. {_CONNECT}",
    53000: f"Conditional access wants a managed device. Exempt this application; {_SIGN_INS}.",
    53003: f"Conditional access blocks it. Exempt this application or this machine's address; {_SIGN_INS}.",
    530003: f"Conditional access wants a registered device. Exempt this application; {_SIGN_INS}.",
}
PASSING = (90033, 90024)  # Microsoft's own trouble, that goes away
_TEMPORARY = ("temporarily_unavailable", "server_error")
_TRIPPED = (ValueError, LookupError, TypeError, AttributeError)  # msal, over a configuration that is none
_CODE = re.compile(r"AADSTS(\d+)")


class _Microsoft(KeptTokens):
    def __init__(
        self, *, client_id: str, tenant: str, authority: str | None = None, now: Callable[[], datetime] = clock.now
    ) -> None:
        super().__init__(now=now)
        self._client_id = client_id
        self._tenant = tenant
        self._authority = f"{(authority or MICROSOFT).rstrip('/')}/{tenant}"

    def _ask(self, question: Callable[[Any], Mapping[str, Any]], secret: RefreshSecret) -> Mapping[str, Any]:
        """`question` gets msal's application. Raises Refused or Unreachable."""
        require_safe(self._authority)
        with TokenHttp() as http:
            try:
                said = question(self._application(http, secret.client_secret))
            except _TRIPPED as error:  # the server's own words say more than msal's, where there are any
                said = dict(http.last.body) if http.last is not None and "error" in http.last.body else {}
                if not said:
                    host = urlsplit(self._authority).netloc
                    raise Unreachable(f"What answers as Microsoft's {host} is none.") from error
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
            raise Unreachable("Microsoft's token server answered, but with no token.")
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
    """The application itself, with the permission SMTP.SendAsApp. It may use the mailboxes that Exchange gives it."""

    def __init__(
        self,
        secret: str,
        *,
        client_id: str,
        tenant: str,
        authority: str | None = None,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        super().__init__(client_id=client_id, tenant=tenant, authority=authority, now=now)
        self._secret = secret

    def fetch(self) -> AccessToken:
        since = self._now()
        known = RefreshSecret(refresh_token="", client_secret=self._secret)
        said = self._ask(lambda app: app.acquire_token_for_client(list(APPLICATION_SCOPES)), known)
        return self._granted(said, since)


class MicrosoftRefreshToken(_Microsoft):
    """`secret`: as written by write_refresh_secret. Microsoft may answer with another refresh token each time: it is
    used from then on, and told to `on_rotated`, from a thread."""

    def __init__(
        self,
        secret: str,
        *,
        client_id: str,
        tenant: str,
        authority: str | None = None,
        # Ignored by default: the one before stays valid until it expires, 90 days after it was issued.
        on_rotated: Callable[[str], None] = lambda _: None,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        super().__init__(client_id=client_id, tenant=tenant, authority=authority, now=now)
        self._text = secret
        self._secret: RefreshSecret | None = None
        self._on_rotated = on_rotated

    def fetch(self) -> AccessToken:
        self._secret = known = self._secret or read_refresh_secret(self._text)
        since = self._now()
        said = self._ask(
            lambda app: app.acquire_token_by_refresh_token(known.refresh_token, list(PERSON_SCOPES)), known
        )
        granted = self._granted(said, since)
        new = said.get("refresh_token")
        if isinstance(new, str) and new and new != known.refresh_token:
            self._secret = replace(known, refresh_token=new)
            self._on_rotated(new)
        return granted


def _code(said: Mapping[str, Any]) -> int:
    """0: none."""
    codes = said.get("error_codes")
    if isinstance(codes, list) and codes and isinstance(codes[0], int):
        return codes[0]
    found = _CODE.search(str(said.get("error_description")))
    return int(found[1]) if found else 0
