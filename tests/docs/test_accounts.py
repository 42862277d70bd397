"""docs/accounts.md names every state and every form of a server's URL, and only commands that exist."""

import re
import shlex
from pathlib import Path

from fairpost.model.account import AccountStatus
from fairpost.transports.smtp.urls import OPTIONS, SCHEMES, parse_smtp_url
from tests.docs.test_commands import what_is_wrong

PAGE = (Path(__file__).parents[2] / "docs" / "accounts.md").read_text("utf-8")
EXAMPLES = [
    line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) for line in block.splitlines()
]


def test_every_state_is_explained() -> None:
    assert re.findall(r"^\| `(\w+)` \| .* \| .*\|$", PAGE.partition("## States")[2], re.MULTILINE) == [*AccountStatus]


def test_every_example_can_be_typed_as_it_is() -> None:
    assert [wrong for example in EXAMPLES if (wrong := what_is_wrong(example))] == []
    for url in [word for example in EXAMPLES for word in shlex.split(example) if "://" in word]:
        parse_smtp_url(url)


def test_every_scheme_and_option_is_in_the_tables_with_its_port() -> None:
    rows = re.findall(r"^\| `(\S+://\S+)` \| .* \| (\d+)(?:, or (\d+) with a user)? \|$", PAGE, re.MULTILINE)
    assert {url.partition("://")[0] for url, *_ in rows} == set(SCHEMES)
    for url, port, with_user in rows:
        real = url.replace("HOST", "h.test")
        assert parse_smtp_url(real).settings.port == int(port)
        if with_user:
            assert parse_smtp_url(real.replace("://", "://ann@")).settings.port == int(with_user)
    assert {option for option in OPTIONS if f"| `{option}=" in PAGE} == set(OPTIONS)
