"""Google's token endpoint: the rules for access tokens and a record of valid tokens. This module is plain state,
without HTTP or a clock. There are two ways to get a token: with an assertion signed by a service account, and with an
OAuth client's refresh token.
"""

import base64
import binascii
import json
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from fairpost.dev.emulate.answers import oauth_error, unauthenticated
from fairpost.dev.emulate.mailbox import Mailboxes

FULL_ACCESS = "https://mail.google.com/"
_AUTH = "https://www.googleapis.com/auth/"
MODIFY, COMPOSE, SEND = f"{_AUTH}gmail.modify", f"{_AUTH}gmail.compose", f"{_AUTH}gmail.send"
READONLY, METADATA, LABELS = f"{_AUTH}gmail.readonly", f"{_AUTH}gmail.metadata", f"{_AUTH}gmail.labels"
SETTINGS = f"{_AUTH}gmail.settings.basic"
SCOPES = frozenset({FULL_ACCESS, MODIFY, COMPOSE, SEND, READONLY, METADATA, LABELS, SETTINGS})

# Google's own addresses, old and new.
# google-auth always uses the first address, regardless of the token URL in the key file.
GOOGLE_AUDIENCES = (
    "https://oauth2.googleapis.com/token",
    "https://www.googleapis.com/oauth2/v4/token",
    "https://accounts.google.com/o/oauth2/token",
)
LIFE_S = 3_600
ASSERTION_S_MAX = 3_600
SKEW_S_MAX = 300  # Google's tolerance for inaccurate clocks
TOKENS_MAX = 100_000  # if there are more, the oldest tokens are deleted

BAD_TIMES = (
    "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
    "Check your iat and exp values in the JWT claim."
)
NOT_AUTHORIZED = (
    "Client is unauthorized to retrieve access tokens using this method, "
    "or client not authorized for any of the scopes requested."
)


@dataclass(slots=True)
class ServiceAccount:
    email: str
    client_id: str
    keys: dict[str, rsa.RSAPublicKey]
    scopes: frozenset[str] = SCOPES  # scopes that an administrator has authorized for the client ID
    disabled: bool = False


@dataclass(slots=True)
class Grant:
    """The access that a refresh token grants."""

    user: str
    client_id: str
    scopes: frozenset[str]
    revoked: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """The access that an access token grants. Without a user, a service account acts for itself."""

    user: str | None
    scopes: frozenset[str]
    until: datetime
    issuer: str

    def allows(self, scopes: Collection[str]) -> bool:
        return not self.scopes.isdisjoint(scopes)


@dataclass(slots=True)
class _Claims:
    iss: str
    scope: str
    aud: str
    iat: float
    exp: float
    sub: str | None
    signed: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    kid: str | None


class Tokens:
    def __init__(
        self,
        mailboxes: Mailboxes,
        *,
        now: Callable[[], datetime],
        life_s: float = LIFE_S,
    ) -> None:
        self._mailboxes = mailboxes
        self._now = now
        self._life_s = life_s
        self._access = dict[str, Access]()
        self.audiences = set(GOOGLE_AUDIENCES)  # the server adds its own address
        self.accounts = dict[str, ServiceAccount]()
        self.clients = dict[str, str]()  # the client secrets, by client ID
        self.grants = dict[str, Grant]()

    def grant(self, form: Mapping[str, str], *, url: str) -> dict[str, Any]:
        """Returns the token endpoint's answer to this form. `url` is the endpoint's URL."""
        match form.get("grant_type"):
            case "urn:ietf:params:oauth:grant-type:jwt-bearer":
                return self._by_assertion(form.get("assertion", ""), url=url)
            case "refresh_token":
                return self._by_refresh_token(form)
            case None | "":
                raise oauth_error("invalid_request", "Missing required parameter: grant_type")
            case other:
                raise oauth_error("unsupported_grant_type", f"Invalid grant_type: {other}")

    def access(self, authorization: str | None) -> Access:
        """Returns the access that a valid header grants."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise unauthenticated(missing=True)
        access = self._access.get(token.strip())
        if access is None or access.until <= self._now():
            raise unauthenticated(missing=False)
        user = access.user and self._mailboxes.user(access.user)
        if access.user and (not user or user.disabled):
            raise unauthenticated(missing=False)
        return access

    def user_of(self, authorization: str | None) -> str | None:
        """Returns the user that a token belongs to, even if the token has expired. Use this function only to look up
        the faults that apply to the user, not for authorization.
        """
        access = self._access.get((authorization or "").partition(" ")[2].strip())
        return access.user if access else None

    def expire(self, user: str | None = None) -> None:
        """Invalidates the access tokens of the given user, or of all users. New tokens can still be issued."""
        self._access = {key: a for key, a in self._access.items() if user and _other(a.user, user)}

    def revoke(self, user: str | None = None) -> None:
        """Invalidates access and refresh tokens, as if the user had withdrawn consent."""
        self.expire(user)
        for grant in self.grants.values():
            grant.revoked = grant.revoked or not user or not _other(grant.user, user)

    def _by_assertion(self, assertion: str, *, url: str) -> dict[str, Any]:
        claims = read_assertion(assertion)
        account = self.accounts.get(claims.iss)
        if account is None:
            raise oauth_error("invalid_grant", "Invalid grant: account not found")
        if account.disabled:
            raise oauth_error("disabled_client", "The OAuth client was disabled.", status=401)
        if not _is_signed(claims, account):
            raise oauth_error("invalid_grant", "Invalid JWT Signature.")
        if claims.aud not in self.audiences | {url}:
            raise oauth_error("invalid_grant", "Invalid JWT: Failed audience check.")
        self._check_times(claims)
        scopes = self._scopes(claims, account)
        if claims.sub is not None:
            self._check_subject(claims.sub)
        return self._issued(Access(claims.sub, scopes, self._until(), claims.iss))

    def _check_times(self, claims: _Claims) -> None:
        now = self._now().timestamp()
        if not (
            claims.iat <= claims.exp <= claims.iat + ASSERTION_S_MAX
            and claims.iat <= now + SKEW_S_MAX
            and now - SKEW_S_MAX <= claims.exp
        ):
            raise oauth_error("invalid_grant", BAD_TIMES)

    def _scopes(self, claims: _Claims, account: ServiceAccount) -> frozenset[str]:
        wanted = frozenset(claims.scope.split())
        if not wanted or not all(scope in SCOPES or scope.startswith(_AUTH) for scope in wanted):
            raise oauth_error("invalid_scope", "Invalid OAuth scope or ID token audience provided.")
        if not wanted <= account.scopes:
            raise oauth_error("unauthorized_client", NOT_AUTHORIZED, status=401)
        return wanted

    def _check_subject(self, sub: str) -> None:
        user = self._mailboxes.user(sub)
        if user is None or user.disabled:
            raise oauth_error("invalid_grant", "Invalid email or User ID")
        if not user.delegated:
            raise oauth_error("unauthorized_client", NOT_AUTHORIZED, status=401)

    def _by_refresh_token(self, form: Mapping[str, str]) -> dict[str, Any]:
        client_id, token = form.get("client_id", ""), form.get("refresh_token", "")
        if not client_id:
            raise oauth_error("invalid_request", "Could not determine client ID from request.")
        if client_id not in self.clients:
            raise oauth_error("invalid_client", "The OAuth client was not found.", status=401)
        if not secrets.compare_digest(self.clients[client_id].encode(), form.get("client_secret", "").encode()):
            raise oauth_error("invalid_client", "Unauthorized", status=401)
        if not token:
            raise oauth_error("invalid_request", "Missing required parameter: refresh_token")
        grant = self.grants.get(token)
        user = grant and self._mailboxes.user(grant.user)
        if grant is None or grant.client_id != client_id or grant.revoked or not user or user.disabled:
            raise oauth_error("invalid_grant", "Token has been expired or revoked.")
        wanted = frozenset(form.get("scope", "").split()) or grant.scopes
        if not wanted <= grant.scopes:
            raise oauth_error("invalid_scope", "Some requested scopes were invalid.")
        return self._issued(Access(grant.user, wanted, self._until(), client_id))

    def _until(self) -> datetime:
        return self._now() + timedelta(seconds=self._life_s)

    def _issued(self, access: Access) -> dict[str, Any]:
        token = f"ya29.c.{secrets.token_urlsafe(48)}"
        self._access[token] = access
        if len(self._access) > TOKENS_MAX:
            del self._access[next(iter(self._access))]
        return {
            "access_token": token,
            "expires_in": int(self._life_s),
            "scope": " ".join(sorted(access.scopes)),
            "token_type": "Bearer",
        }


def read_assertion(assertion: str) -> _Claims:
    """Parses the assertion without verifying it."""
    if not assertion:
        raise oauth_error("invalid_request", "Missing required parameter: assertion")
    try:
        head, body, signature = assertion.split(".")
        header, claims = json.loads(_octets(head)), json.loads(_octets(body))
        if header["alg"] != "RS256":
            raise ValueError("another algorithm")
        return _Claims(
            iss=_string(claims["iss"]),
            scope=_string(claims.get("scope", "")),
            aud=_string(claims["aud"]),
            iat=_number(claims["iat"]),
            exp=_number(claims["exp"]),
            sub=None if claims.get("sub") is None else _string(claims["sub"]),
            signed=f"{head}.{body}".encode(),
            signature=_octets(signature),
            kid=header.get("kid"),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise oauth_error(
            "invalid_grant", "Invalid JWT: Token must be a JWT with iss, aud, iat and exp, signed with RS256."
        ) from None


def _octets(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        raise TypeError("not a moment")
    return value


def _is_signed(claims: _Claims, account: ServiceAccount) -> bool:
    keys = [account.keys[claims.kid]] if isinstance(claims.kid, str) and claims.kid in account.keys else []
    for key in keys or ([] if claims.kid else account.keys.values()):
        try:
            key.verify(claims.signature, claims.signed, padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            continue
        return True
    return False


def _other(one: str | None, another: str) -> bool:
    return (one or "").lower() != another.lower()
