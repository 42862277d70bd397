"""DKIM keys: as strong as receivers require, and readable after they were sealed."""

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from fairpost.model.dkim import Algorithm
from fairpost.vault.dkim import new_private_key, public_text, read_private_key, write_private_key


def test_an_rsa_key_has_2048_bits() -> None:
    key = new_private_key(Algorithm.RSA)
    assert isinstance(key, RSAPrivateKey)
    assert key.key_size == 2048


def test_a_written_key_is_the_same_when_it_is_read() -> None:
    for algorithm in Algorithm:
        key = new_private_key(algorithm)
        assert public_text(read_private_key(write_private_key(key))) == public_text(key)
