"""Gets tokens from Google for a service account that acts for a mailbox in its Workspace, or for a person who gave
consent.

google-auth signs the assertion. This module sends the request itself, because google-auth's client retries, uses its
own clock, and hides the server's time, which is needed to detect a wrong clock.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from fairpost.model.durations import say_duration
from fairpost.system import clock
from fairpost.transports.oauth import public
from fairpost.transports.oauth.errors import Refused, Unreachable
from fairpost.transports.oauth.http import Answer, TokenHttp, require_safe
from fairpost.transports.oauth.sanitizer import shown
from fairpost.transports.oauth.secrets import read_refresh_secret
from fairpost.transports.oauth.tokens import AccessToken, KeptTokens

SCOPES = ("https://mail.google.com/",)  # the only scope that SMTP accepts
ASSERTION_S = 3600  # the maximum that Google allows
SKEW_MAX = timedelta(minutes=1)  # a larger difference between the clocks is reported
KEYS_MAX = 64 * 1024  # a key file is about 2.4 KB

_DELEGATE = (
    "In the Google Admin console, Security → Access and data control → API controls → Domain-wide delegation, "
    "add the client ID {client_id} with the scope {scopes}. This can take a few minutes to take effect."
)
NEW_KEY = (
    "Create a new key in the Google Cloud console (IAM & Admin → Service accounts → Keys), and set it: "
    "fairpost account set NAME --oauth google --key-file FILE"
)
CONNECT_AGAIN = (
    "Connect the account again: fairpost account set NAME --oauth google --client-id ID --refresh-token-file FILE"
)
_TEMPORARY = ("temporarily_unavailable", "server_error", "internal_failure")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceKey:
    email: str
    client_id: str
    token_uri: str
    signer: Any = field(repr=False)


def read_service_key(text: str) -> ServiceKey:
    """Parses a service account's key file. Raises Refused for any other file. The message says what kind of file it
    is.
    """
    info = _key_info(text)
    token_uri = info.get("token_uri") or public.GOOGLE_URI
    require_safe(str(token_uri))
    return ServiceKey(
        email=info["client_email"],
        client_id=str(info.get("client_id") or info["client_email"]),
        token_uri=str(token_uri),
        signer=_signer(info),
    )


class GoogleServiceAccount(KeptTokens):
    """Tokens of a service account with domain-wide delegation. `subject` is the mailbox that the service account acts
    for.
    """

    def __init__(
        self,
        key: str,
        *,
        subject: str,
        scopes: Sequence[str] = SCOPES,
        token_uri: str | None = None,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        super().__init__(now=now)
        self._text = key
        self._key: ServiceKey | None = None
        self._subject = subject
        self._scope = " ".join(scopes)
        self._token_uri = token_uri

    def fetch(self) -> AccessToken:
        self._key = key = self._key or read_service_key(self._text)
        token_uri = self._token_uri or key.token_uri
        since = self._now()
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "assertion": self._assertion(key, token_uri, since),
        }
        with TokenHttp() as http:
            answer = http.post(token_uri, data=form)
        if "error" in answer.body:
            raise self._refusal(key, answer, form["assertion"])
        return _granted(self, answer, since)

    def _assertion(self, key: ServiceKey, token_uri: str, now: datetime) -> str:
        from google.auth import jwt

        issued = int(now.timestamp())
        claims = {
            "iss": key.email,
            "sub": self._subject,
            "scope": self._scope,
            "aud": token_uri,
            "iat": issued,
            "exp": issued + ASSERTION_S,
        }
        signed: bytes = jwt.encode(key.signer, claims)  # type: ignore[no-untyped-call]
        return signed.decode()

    def _refusal(self, key: ServiceKey, answer: Answer, assertion: str) -> Exception:
        error, said = _error(answer, assertion)
        skew = _skew(answer, self._now())
        what = f"Google gave no token for {self._subject} ({_named(error, said)})."
        lower = said.lower()
        if error in _TEMPORARY:
            return Unreachable(what)
        if abs(skew) > SKEW_MAX and (error == "invalid_grant" or "iat" in lower):
            way = "behind" if skew > timedelta() else "ahead of"
            return Unreachable(
                f"{what} This machine's clock is {say_duration(abs(skew).total_seconds())} {way} Google's. Correct it: timedatectl set-ntp true"
            )  # temporary, because the account works again once the clock is correct
        if "short-lived" in lower or "timeframe" in lower:
            return Unreachable(f"{what} Check this machine's clock: timedatectl set-ntp true")
        if error in ("unauthorized_client", "access_denied", "invalid_scope"):
            advice = _DELEGATE.format(client_id=key.client_id, scopes=self._scope)
        elif "signature" in lower:
            advice = f"The key was deleted or belongs to another service account. {NEW_KEY}"
        elif "audience" in lower:
            advice = f"Check the token_uri in the key file: Google's is {public.GOOGLE_URI}"
        elif "user id" in lower:
            advice = (
                f"Check that the mailbox {self._subject} exists in this Workspace and is a user, not an alias or group."
            )
        elif "account not found" in lower or error in ("invalid_client", "disabled_client", "deleted_client"):
            advice = f"The service account {key.email} was deleted or disabled. Enable it, or create another. {NEW_KEY}"
        else:
            advice = f"Check that the service account {key.email} and the mailbox {self._subject} are active."
        return Refused(error, what, advice)


class GoogleRefreshToken(KeptTokens):
    """Tokens for a user who has given consent. `secret` is in the format of write_refresh_secret."""

    def __init__(
        self, secret: str, *, client_id: str, token_uri: str | None = None, now: Callable[[], datetime] = clock.now
    ) -> None:
        super().__init__(now=now)
        self._secret = secret
        self._client_id = client_id
        self._token_uri = token_uri or public.GOOGLE_URI

    def fetch(self) -> AccessToken:
        secret = read_refresh_secret(self._secret)
        since = self._now()
        form = {
            "grant_type": "refresh_token",
            "client_id": self._client_id,
            "refresh_token": secret.refresh_token,
            **({"client_secret": secret.client_secret} if secret.client_secret else {}),
        }
        with TokenHttp() as http:
            answer = http.post(self._token_uri, data=form)
        if "error" in answer.body:
            raise self._refusal(*_error(answer, secret.refresh_token, secret.client_secret))
        return _granted(self, answer, since)

    def _refusal(self, error: str, said: str) -> Exception:
        what = f"Google gave no token ({_named(error, said)})."
        match error:
            case _ if error in _TEMPORARY:
                return Unreachable(what)
            case "invalid_grant":
                advice = (
                    "The refresh token was revoked or has expired: after seven days while the app's publishing status is "
                    f"“testing”, after six months without use, or with a new password. {CONNECT_AGAIN}"
                )
            case "invalid_client" | "unauthorized_client" | "deleted_client" | "disabled_client":
                advice = (
                    f"Check the client ID {self._client_id} and its secret in the Google Cloud console (APIs & Services → "
                    f"Credentials): the token must come from that same client. {CONNECT_AGAIN}"
                )
            case "admin_policy_enforced" | "org_internal" | "access_denied":
                advice = (
                    "Allow the app in the Google Admin console (Security → Access and data control → API controls → "
                    f"App access control): client ID {self._client_id}."
                )
            case _:
                advice = CONNECT_AGAIN
        return Refused(error, what, advice)


def _granted(source: KeptTokens, answer: Answer, since: datetime) -> AccessToken:
    secret, seconds = answer.body.get("access_token"), answer.body.get("expires_in", ASSERTION_S)
    if not isinstance(secret, str) or not secret or not isinstance(seconds, int | float):
        raise Unreachable(f"Google's token server responded with {answer.status_code}, but without a token.")
    return source.lasting(secret, seconds=seconds, since=since)


def _error(answer: Answer, *secrets: str | None) -> tuple[str, str]:
    return (
        shown(answer.body["error"], *secrets),
        shown(answer.body.get("error_description") or "", *secrets).rstrip("."),
    )


def _named(error: str, said: str) -> str:
    return f"{error}: {said}" if said else error


def _skew(answer: Answer, now: datetime) -> timedelta:
    """Returns how far this machine's clock is behind the server's clock."""
    return answer.date - now if answer.date is not None else timedelta()


def _key_info(text: str) -> Mapping[str, Any]:
    try:
        info = json.loads(text) if len(text) <= KEYS_MAX else None
    except ValueError:
        info = None
    if not isinstance(info, dict):
        raise _wrong_key("is not JSON, which is the format of Google's key files")
    if "installed" in info or "web" in info:
        raise _wrong_key("is for an OAuth client, not for a service account")
    if info.get("type") != "service_account":
        raise _wrong_key(f'has the type "{shown(info.get("type"))[:40]}", not "service_account"')
    for name in ("private_key", "client_email"):
        if not isinstance(info.get(name), str) or not info[name]:
            raise _wrong_key(f"does not contain {name}")
    return info


def _signer(info: Mapping[str, Any]) -> Any:
    from google.auth import crypt

    try:
        return crypt.RSASigner.from_service_account_info(info)  # type: ignore[no-untyped-call]
    except Exception as error:  # from OpenSSL, cryptography or google-auth; each error means that this is not a key
        raise _wrong_key("is damaged: its private_key cannot be read") from error


def _wrong_key(what: str) -> Refused:
    return Refused("wrong_key_file", f"The key file {what}.", NEW_KEY)
