"""A service account's key file, newly created, and Google's checks of what it has signed."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import exceptions, jwt

from tests.transports.oauth.token_server import Form, Said, TokenServer

CLIENT_ID = "104857600000000000007"
SERVICE = "sender@project.iam.gserviceaccount.com"
MAILBOX = "ann@example.com"
SCOPE = "https://mail.google.com/"
OUT_OF_TIME = (
    "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
    "Check your iat and exp values in the JWT claim."
)


@dataclass(frozen=True)
class KeyPair:
    private: str
    public: str


@cache
def key_pair(name: str = "first") -> KeyPair:
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return KeyPair(private.decode(), public.decode())


def key_file(token_uri: str = "https://oauth2.googleapis.com/token", **changes: Any) -> str:
    info = {
        "type": "service_account",
        "project_id": "project",
        "private_key_id": "key-1",
        "private_key": key_pair().private,
        "client_email": SERVICE,
        "client_id": CLIENT_ID,
        "token_uri": token_uri,
        **changes,
    }
    return json.dumps({name: value for name, value in info.items() if value is not None})


def google(*, delegated: bool = True, mailboxes: tuple[str, ...] = (MAILBOX,)) -> TokenServer:
    """Checks signature, audience, time, delegation and mailbox, and grants token-1, token-2, …"""
    server = TokenServer(answer=lambda _: (500, ""))

    def answer(form: Form) -> Said:
        if form.get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer":
            return 400, {"error": "unsupported_grant_type"}
        try:
            claims = jwt.decode(form["assertion"], certs={"key-1": key_pair().public}, audience=server.url)  # type: ignore[no-untyped-call]
        except exceptions.InvalidValue:
            return 400, {"error": "invalid_grant", "error_description": OUT_OF_TIME}
        except exceptions.MalformedError:
            return 400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
        assert claims["iss"] == SERVICE
        assert claims["exp"] <= claims["iat"] + 3600
        if not delegated or claims["scope"] != SCOPE:
            return 401, {
                "error": "unauthorized_client",
                "error_description": "Client is unauthorized to retrieve access tokens using this method, or client "
                "not authorized for any of the scopes requested.",
            }
        if claims["sub"] not in mailboxes:
            return 400, {"error": "invalid_grant", "error_description": "Invalid email or User ID"}
        return granted(len(server.asked))

    server.answer = answer
    return server


def granted(n: int, **more: Any) -> Said:
    return 200, {"access_token": f"token-{n}", "expires_in": 3599, "token_type": "Bearer", **more}


def saying(status: int, body: Any) -> Callable[[Form], Said]:
    return lambda _: (status, body)
