"""A key is accepted in every common form, and never shown."""

from base64 import b64encode, urlsafe_b64encode

import pytest

from fairpost.model.errors import SettingsError
from fairpost.settings import read_settings
from fairpost.vault.keys import Key, new_key, read_key, write_key

MATERIAL = bytes(range(223, 255))  # has + and / in base64
KEY = Key(MATERIAL)


@pytest.mark.parametrize(
    "text",
    [
        b64encode(MATERIAL).decode(),
        b64encode(MATERIAL).decode().rstrip("="),
        urlsafe_b64encode(MATERIAL).decode(),
        MATERIAL.hex(),
        MATERIAL.hex().upper(),
        f" {MATERIAL.hex()}\n",
    ],
)
def test_a_key_is_read_as_base64_or_hex(text: str) -> None:
    assert read_key(text) == KEY


@pytest.mark.parametrize(
    "text",
    ["", "secret", "ä" * 44, b64encode(MATERIAL[1:]).decode(), b64encode(MATERIAL + b"x").decode(), "f" * 63, "=" * 44],
)
def test_a_key_must_have_32_bytes(text: str) -> None:
    assert read_key(text) is None


def test_a_key_is_read_as_it_was_written() -> None:
    assert read_key(write_key(KEY)) == KEY


def test_keys_differ_and_so_do_their_ids() -> None:
    keys = [new_key() for _ in range(100)]
    assert len({key.material for key in keys}) == len({key.id for key in keys}) == 100


def test_a_key_is_not_in_its_repr_nor_in_the_settings() -> None:
    settings = read_settings({"FAIRPOST_SECRET_KEY": write_key(KEY), "FAIRPOST_SECRET_KEY_OLD": MATERIAL.hex()})
    assert settings.secret_key == settings.secret_key_old == KEY
    shown = f"{settings!r} {KEY!r} {KEY}"
    assert repr(MATERIAL) not in shown
    assert write_key(KEY) not in shown
    assert MATERIAL.hex() not in shown


@pytest.mark.parametrize("variable", ["FAIRPOST_SECRET_KEY", "FAIRPOST_SECRET_KEY_OLD"])
def test_a_wrong_key_is_named_with_its_rule_and_not_shown(variable: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_settings({variable: "hunter2"})
    for fact in (variable, "32 bytes", "base64", "hex", "7"):
        assert fact in str(error.value)
    assert "hunter2" not in str(error.value)
