"""The rules for names match those of the database."""

import pytest

from fairpost.model.names import NAME, WORKSPACE_NAME, is_full_name, is_name, is_pool
from fairpost.store.store import Store


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("a", True),
        ("A.b_c-9", True),
        ("a" * 100, True),
        ("a" * 101, False),
        ("", False),
        ("-a", False),
        ("a b", False),
        ("a\n", False),
        ("ä", False),
        ("a/b", False),
    ],
)
def test_a_name_needs_no_quotes_anywhere(text: str, is_one: bool) -> None:
    assert is_name(text) is is_one


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("news", True), ("acme/news", True), ("", False), ("@ann", False), ("a\nb", False), ("x" * 101, False)],
)
def test_a_pool_is_one_line_and_no_account(text: str, is_one: bool) -> None:
    assert is_pool(text) is is_one


async def test_accounts_are_named_in_the_database_by_the_same_rules(store: Store) -> None:
    check = await store.value(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'accounts_name_check'"
    )
    assert f"^({WORKSPACE_NAME.pattern}/)?{NAME.pattern}$" in check


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("mail.example.com", True),
        ("MAIL-1.example.com", True),
        ("a.b", False),
        ("localhost", False),
        ("10.0.0.1", False),
        ("mail.example.com.", False),
        ("-a.example.com", False),
        ("a..example.com", False),
        ("a" * 64 + ".example.com", False),
        ("b\u00fccher.example", False),
        ("[127.0.0.1]", False),
        ("a.example.com\n", False),
    ],
)
def test_a_full_host_name_has_a_domain(text: str, is_one: bool) -> None:
    assert is_full_name(text) is is_one
