"""Microsoft's token server, as far as msal needs it: its configuration and its token endpoint, over TLS, which msal
requires. Clients find our certificate authority in SSL_CERT_FILE."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.peers.certificates import Certificates
from tests.transports.oauth.token_server import Form, Said, TokenServer, serving

TENANT = "example.onmicrosoft.com"
CLIENT_ID = "11111111-2222-3333-4444-555555555555"


@contextmanager
def entra(answer: Callable[[Form], Said], certificates: Certificates) -> Iterator[TokenServer]:
    with serving(TokenServer(answer=answer), certificates.good) as server:
        base = f"{authority(server)}/{TENANT}"
        server.pages[f"/{TENANT}/v2.0/.well-known/openid-configuration"] = {
            "issuer": f"{base}/v2.0",
            "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
            "token_endpoint": f"{base}/oauth2/v2.0/token",
        }
        yield server


def authority(server: TokenServer) -> str:
    return f"https://localhost:{server.port}"


def refusing(code: int, words: str, error: str = "invalid_client", **more: Any) -> Callable[[Form], Said]:
    tail = "Trace ID: 8f0c Correlation ID: 77aa Timestamp: 2026-11-16 09:00:00Z"
    body = {"error": error, "error_description": f"AADSTS{code}: {words} {tail}", "error_codes": [code], **more}
    return lambda _: (401, body)
