"""Where webhooks may lead."""

from ipaddress import ip_network

import pytest

from fairpost.actions import webhooks as actions
from fairpost.actions.acting import Refused
from fairpost.smtp.guard import NetworkGuard
from fairpost.webhooks.urls import WrongUrl, target_of
from tests.webhooks.conftest import ACTOR, Hooks


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "example.com/hook",
        "https://",
        "https://user:pw@example.com/",
        "https://example.com/#part",
        "https://example.com:25/",
        "https://example.com:70000/",
        "https://exa mple.com/",
        "https://example.com/a\r\nx: y",
        "https://exämple.com/",
        f"https://example.com/{'x' * 2000}",
    ],
)
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(WrongUrl):
        target_of(url)


def test_a_url_becomes_where_to_connect_and_what_to_ask_for() -> None:
    target = target_of("https://example.com:8443/a/b?c=d")
    assert (target.host, target.port, target.path, target.authority) == (
        *("example.com", 8443, "/a/b?c=d"),
        "example.com:8443",
    )
    assert target_of("https://[2606:2800::1]").authority == "[2606:2800::1]"


@pytest.mark.parametrize(
    ("address", "target", "workspace", "is_refused"),
    [
        ("9.9.9.9", "https://it.test/", "w1", False),
        ("9.9.9.9", "http://it.test/", "w1", True),
        ("9.9.9.9", "http://it.test/", None, True),
        ("10.1.2.3", "https://it.test/", "w1", True),
        ("169.254.169.254", "https://it.test/", "w1", True),
        ("::ffff:10.1.2.3", "https://it.test/", "w1", True),
        ("10.9.2.3", "http://it.test/", "w1", False),  # allowed by the operator
        ("10.1.2.3", "http://it.test/", None, False),  # the operator's own
    ],
)
async def test_workspaces_reach_public_addresses_by_https_and_what_the_operator_allows(
    hooks: Hooks, address: str, target: str, workspace: str | None, is_refused: bool
) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return [address]

    hooks.guard = NetworkGuard(allowed=(ip_network("10.9.0.0/16"),), resolve=resolve)
    if not is_refused:
        await hooks.add(target, workspace)
        return
    request = actions.AddWebhook(workspace=workspace, url=target, guard=hooks.guard, vault=hooks.vault)
    refused = await actions.add(ACTOR, request, hooks.store)
    assert isinstance(refused, Refused)
    assert refused.reason.code == "webhook.url_invalid"
