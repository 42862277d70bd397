"""Keys of service accounts, in the format of Google's JSON key files."""

import json
import os
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from fairpost.model.errors import FairpostError

PROJECT = "fairpost-emulator"
PROJECT_NUMBER = "104729104729"
RSA_BITS = 2_048
NEEDED = ("private_key_id", "private_key", "client_email", "client_id")


@cache
def private_key() -> rsa.RSAPrivateKey:
    """Returns the same key for as long as the process runs, because generating a key takes a substantial fraction of a
    second.
    """
    return rsa.generate_private_key(public_exponent=65_537, key_size=RSA_BITS)


def service_account_info(
    *, token_url: str, name: str = "fairpost", key: rsa.RSAPrivateKey | None = None
) -> dict[str, str]:
    key = key or private_key()
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    email = f"{name}@{PROJECT}.iam.gserviceaccount.com"
    return {
        "type": "service_account",
        "project_id": PROJECT,
        "private_key_id": _fingerprint(key.public_key())[:40],
        "private_key": pem,
        "client_email": email,
        "client_id": str(int(_digest(email.encode())[:16], 16))[:21].rjust(21, "1"),
        "auth_uri": token_url.removesuffix("/token") + "/o/oauth2/auth",
        "token_uri": token_url,
        "universe_domain": "googleapis.com",
    }


def public_key_of(info: dict[str, Any]) -> rsa.RSAPublicKey:
    """Returns the public key. Raises ValueError if there is no valid key."""
    return _public_key(str(info["private_key"]))


@lru_cache(maxsize=8)  # parsing a key takes as long as handling a hundred requests
def _public_key(pem: str) -> rsa.RSAPublicKey:
    key = load_pem_private_key(pem.encode(), password=None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise ValueError("the private key is not an RSA key")
    return key.public_key()


def made_or_reused(path: Path, *, token_url: str) -> dict[str, str]:
    """Returns the key file at this path, which contains the current token URL and is readable only by its owner."""
    try:
        info = _reused(path) if path.exists() else service_account_info(token_url=token_url)
        info["token_uri"] = token_url
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(json.dumps(info, indent=2) + "\n")
        beside.replace(path)
    except OSError as error:
        raise FairpostError(
            f"Cannot store the key at {path}: {error.strerror or error}. Use a different path: --credentials-file PATH"
        ) from error
    return info


def _reused(path: Path) -> dict[str, str]:
    try:
        info = json.loads(path.read_text())
        if not isinstance(info, dict) or not all(isinstance(info.get(name), str) for name in NEEDED):
            raise ValueError(f"it does not contain all of {', '.join(NEEDED)}")
        if info.get("project_id") != PROJECT:
            raise ValueError("it was not created by this emulator, so it was not changed")
        public_key_of(info)
    except ValueError as error:
        raise FairpostError(
            f"{path} is not one of the emulator's key files: {error}. Use a different file: --credentials-file PATH"
        ) from error
    return info


def _fingerprint(key: rsa.RSAPublicKey) -> str:
    return _digest(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))


def _digest(octets: bytes) -> str:
    digest = hashes.Hash(hashes.SHA256())
    digest.update(octets)
    return digest.finalize().hex()
