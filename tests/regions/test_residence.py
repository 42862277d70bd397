"""An e-mail's data is in its region and nowhere else: in no row of any other database, and on no other connection."""

import asyncio
import itertools
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fairpost.model.account import Limits
from fairpost.store.store import Store
from tests.chaos.driver import eventually, until
from tests.chaos.processes import Engine
from tests.chaos.recorder import Recorder
from tests.cli.conftest import deliver
from tests.regions.conftest import NAMES, Regions
from tests.regions.proxy import Proxy
from tests.regions.residence import tables_with
from tests.simulation.world import draft
from tests.thorough import times

UNLIMITED = ("--provider", "none")
_marks = itertools.count()
WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=12, max_size=20)


def email(word: str) -> dict[str, Any]:
    """With the word wherever one may occur."""
    return draft(
        workspace=f"w-{word}",
        domain=f"{word}.test",
        user=f"u-{word}",
        stream=f"s-{word}",
        to=f"{word}@there.test",
        subject=f"For {word}",
        text=f"Dear {word}",
        fields={"name": word},
        idempotency_key=f"k-{word}",
        attachments=[
            {
                "filename": f"{word}.txt",
                "content_type": "text/plain",
                "data": b64encode(f"of {word}".encode()).decode(),
            }
        ],
    )


@pytest.mark.thorough
@settings(max_examples=times(2), phases=[Phase.generate])  # a failure is the same for all words
@given(words=st.lists(WORDS, min_size=1, max_size=3, unique=True), region=st.sampled_from(NAMES))
def test_no_row_of_any_other_database_has_a_word_of_it(regions: Regions, words: list[str], region: str) -> None:
    mark = f"marked{next(_marks)}x"  # unique among all examples

    async def enqueue() -> None:
        async with Store.open(regions.urls[region]) as store:
            if not await store.accounts():
                await store.add_account("sales", address="sales@post.test", limits=Limits())
            rows = await store.enqueue_many([email(f"{word}{mark}") for word in words])
            assert all(row["id"] for row in rows), rows
            await store.suppress("*", f"{mark}@there.test", reason="asked")

    asyncio.run(enqueue())
    waiting = tables_with(regions.urls[region], mark)
    deliver(regions.urls[region])
    sent = tables_with(regions.urls[region], mark)
    assert {"fairpost.queue", "fairpost.arrivals", "fairpost.suppressions"} <= set(waiting), (
        "otherwise this proves nothing"
    )
    assert {name.partition("_")[0] for name in sent} >= {
        "fairpost.emails",
        "fairpost.attachments",
    }  # one partition per month
    others = {name: url for name, url in regions.all_urls.items() if name != region}
    assert {name: tables_with(url, mark) for name, url in others.items()} == {name: [] for name in others}


@dataclass(frozen=True)
class Wired:
    """The regions behind proxies, and a server that accepts the mail."""

    regions: Regions
    proxies: dict[str, Proxy]
    recorder: Recorder


@pytest.fixture
async def wired(regions: Regions) -> AsyncIterator[Wired]:
    async with AsyncExitStack() as stack:
        proxies = {n: await stack.enter_async_context(Proxy(url)) for n, url in regions.all_urls.items()}
        recorder = stack.enter_context(Recorder().running())
        urls = {name: proxies[name].url for name in regions.urls}
        yield Wired(Regions(urls, proxies["home"].url, regions.home), proxies, recorder)


@pytest.mark.slow
async def test_an_address_of_one_region_never_crosses_the_wire_of_another_and_its_engine_opens_no_other(
    wired: Wired, tmp_path: Path
) -> None:
    regions, proxies = wired.regions, wired.proxies
    address = "only-in-europe@there.test"
    others = ("us", "ap", "home")

    async def run(region: str | None, *arguments: str) -> str:
        return await asyncio.to_thread(regions.cli(region).ok, *arguments)

    server = f"smtp://127.0.0.1:{wired.recorder.port}"
    await run(None, "region", "place", "acme", "eu")
    await run("eu", *("account", "add", "sales", "--from", "eu@post.test", "--smtp", server, *UNLIMITED))
    opened = {name: proxies[name].connections for name in others}
    engine = Engine.start(regions.home_url, None, tmp_path, "--region", "eu", env=regions.environment())
    try:
        await until(engine.is_ready, "the engine is ready")
        await run(
            "eu", *("email", "send", "--to", address, "--subject", "Hello", "--text", "Hi", "--workspace", "acme")
        )
        await until(lambda: any(t.recipient == address for t in wired.recorder.taken), "it is sent")

        async def is_settled() -> bool:
            return '"sent"' in await run("eu", "email", "list", "--workspace", "acme", "--json")

        await eventually(is_settled, "it is settled")
    finally:
        engine.end()
    assert {name: proxies[name].connections for name in others} == opened
    await run(None, "region", "of", "acme")
    await run("eu", "account", "share", "sales", "--slice", "eu=60", "--slice", "us=40")
    await run(None, "region", "list")
    for region in ("us", "ap"):
        await run(region, "status")
    assert proxies["eu"].seen(address.encode()), "otherwise this test would prove nothing"
    for other in others:
        assert proxies[other].connections > opened[other]
        assert not proxies[other].seen(address.encode()), other
        assert not proxies[other].seen(address.encode().hex().encode()), other
