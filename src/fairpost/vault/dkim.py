"""Create DKIM private keys, serialize them for sealing, parse them, and format the public key for DNS."""

from base64 import b64encode
from typing import TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from fairpost.model.dkim import Algorithm
from fairpost.model.errors import VaultError

PrivateKey: TypeAlias = RSAPrivateKey | Ed25519PrivateKey

RSA_BITS = 2048


def new_private_key(algorithm: Algorithm) -> PrivateKey:
    if algorithm is Algorithm.RSA:
        return generate_private_key(65537, RSA_BITS)
    return Ed25519PrivateKey.generate()


def write_private_key(key: PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")


def read_private_key(text: str) -> PrivateKey:
    """Parse a private key. Raises VaultError."""
    try:
        # Validating an RSA key takes 40 ms. This key was created by Fairpost, and its seal proves that it has not been
        # changed.
        key = load_pem_private_key(text.encode("ascii"), password=None, unsafe_skip_rsa_key_validation=True)
    except ValueError:
        raise VaultError("The stored DKIM key cannot be read.") from None
    if not isinstance(key, RSAPrivateKey | Ed25519PrivateKey):
        raise VaultError("The stored DKIM key has a type that cannot be used to sign mail.")
    return key


def public_text(key: PrivateKey) -> str:
    """Return the `p=` value of the DNS record."""
    public = key.public_key()
    if isinstance(key, RSAPrivateKey):
        return b64encode(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode("ascii")
    return b64encode(public.public_bytes(Encoding.Raw, PublicFormat.Raw)).decode("ascii")
