"""Settings are checked once, and a wrong one is named with its rule."""

from pathlib import Path

import pytest

from fairpost.model.errors import SettingsError
from fairpost.settings import read_settings, without_password


def test_without_any_variable_the_defaults_hold() -> None:
    settings = read_settings({})
    assert settings.home == Path.home() / ".fairpost"
    assert settings.database_url is None
    assert settings.workspace == "default"


def test_an_empty_variable_counts_as_not_set() -> None:
    assert read_settings({"FAIRPOST_DATABASE_URL": "", "FAIRPOST_WORKSPACE": ""}) == read_settings({})


def test_variables_replace_the_defaults(tmp_path: Path) -> None:
    settings = read_settings(
        {
            "FAIRPOST_HOME": str(tmp_path),
            "FAIRPOST_DATABASE_URL": "postgresql://host/db",
            "FAIRPOST_WORKSPACE": "acme",
        }
    )
    assert (settings.home, settings.database_url, settings.workspace) == (tmp_path, "postgresql://host/db", "acme")


def test_a_relative_home_is_made_absolute() -> None:
    assert read_settings({"FAIRPOST_HOME": "here"}).home == Path("here").absolute()


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("FAIRPOST_HOME", "/etc/hostname", "must be a directory, or a path where one can be made, got /etc/hostname"),
        ("FAIRPOST_HOME", "~nobody-at-all/x", "must be a directory"),
        ("FAIRPOST_DATABASE_URL", "mysql://h/d", "must be a URL that begins with postgresql://, got mysql://h/d"),
        ("FAIRPOST_WORKSPACE", "*", "must be 1..200 characters on one line, and not *, got *"),
        ("FAIRPOST_WORKSPACE", "a\nb", "must be 1..200 characters"),
        ("FAIRPOST_WORKSPACE", "x" * 201, "must be 1..200 characters"),
    ],
)
def test_a_wrong_value_is_named_with_its_key_and_rule(variable: str, value: str, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_settings({variable: value})
    assert f"{variable} {message}" in str(error.value)


def test_no_password_ends_up_in_an_error() -> None:
    with pytest.raises(SettingsError) as error:
        read_settings({"FAIRPOST_DATABASE_URL": "mysql://ann:secret@host/db"})
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:secret@h:5/d?x=1", "postgresql://ann:***@h:5/d?x=1"),
        ("postgresql://ann@h/d", "postgresql://ann@h/d"),
        ("postgresql:///d?password=secret&host=%2Ftmp", "postgresql:///d?password=***&host=%2Ftmp"),
        ("postgresql://ann:a/b@c@h/d", "postgresql://ann:***@h/d"),
        ("postgresql://h:5432/d", "postgresql://h:5432/d"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize("address", ["team@example.com", "a.b+c_d@sub.example.com", "root@localhost"])
def test_everything_may_be_redirected_to_one_address(address: str) -> None:
    assert read_settings({"FAIRPOST_REDIRECT_ALL": address}).redirect_all == address


@pytest.mark.parametrize(
    "text",
    [
        "team",
        "@x.test",
        "team@",
        "a@b@c",
        "a@x.test,b@x.test",
        "Team <a@x.test>",
        "a b@x.test",
        "ü@x.test",
        "a@x.test\n",
    ],
)
def test_a_redirect_that_is_not_one_address_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="FAIRPOST_REDIRECT_ALL must be one e-mail address in ASCII, got"):
        read_settings({"FAIRPOST_REDIRECT_ALL": text})
