"""Secrets in texts: masked as whole tokens, so that words stay intact and no secret is shown."""

import pytest

from fairpost.model.secrets import masked
from fairpost.smtp.auth import Password, without_secret
from fairpost.transports.oauth.sanitizer import shown


@pytest.mark.parametrize(
    ("text", "secret", "left"),
    [
        ("535 the peer has closed", "p", "535 the peer has closed"),
        ("535 a peer", "a", "535 a peer"),
        ("535 authentication failed", "auth", "535 authentication failed"),
        ("535 passwords differ", "password", "535 passwords differ"),
        ("p", "p", "***"),
        ("535 wrong password: p", "p", "535 wrong password: ***"),
        ("535 wrong password p.", "p", "535 wrong password ***."),
        ("535 'p' is wrong for pepper", "p", "535 '***' is wrong for pepper"),
        ("535 hunter2 is wrong", "hunter2", "535 *** is wrong"),
        ("535 (hunter2), hunter2.", "hunter2", "535 (***), ***."),
        ("535 user=ann,pass=hunter2;", "hunter2", "535 user=ann,pass=***;"),
        ("535 p$1.* is wrong", "p$1.*", "535 *** is wrong"),
        (f"Bearerx{'k' * 40}x", "k" * 40, "Bearerx***x"),
        ("nothing", "", "nothing"),
    ],
)
def test_a_secret_is_masked_where_it_stands_as_itself(text: str, secret: str, left: str) -> None:
    assert masked(text, secret) == left


def test_a_short_password_leaves_the_words_of_a_server_whole() -> None:
    login = Password(user="ann@example.com", secret="p")
    assert without_secret("535 the peer cannot help", login) == "535 the peer cannot help"
    assert without_secret("535 AUTH LOGIN cA== is wrong", login) == "535 AUTH LOGIN *** is wrong"


def test_the_longer_of_two_secrets_is_masked_first() -> None:
    assert shown("told: secret-and-more, secret", "secret", "secret-and-more") == "told: ***, ***"
