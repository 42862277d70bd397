"""The receivers of docs/webhooks.md and `fairpost webhook listen` accept what we sign, and reject everything else."""

import asyncio
import os
import re
import shutil
import signal
import socket
import sys
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairpost.smtp.guard import NetworkGuard
from fairpost.system import clock
from fairpost.webhooks.post import Endpoint
from fairpost.webhooks.receiver import Received, serve
from fairpost.webhooks.signing import key_of, signature
from tests.thorough import IS_FREE

PAGE = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text()
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = '{"id":"ev_1","type":"email.sent","data":{"tags":{"town":"Köln"}}}'.encode()
LISTEN_S_MAX = 200.0  # Go is built first


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _verdicts(port: int) -> list[int | None]:
    """Returns the responses to good requests, to bad ones (a changed body, another secret, one from yesterday), and to a
    good one again. Malformed requests come in between."""
    endpoint = Endpoint(f"http://127.0.0.1:{port}/", NetworkGuard(), is_operators=True)
    now, key, other = int(clock.now().timestamp()), key_of(SECRET), b"other"
    try:
        await _until_it_listens(port)
        asked = [
            (now, signature([key], "ev_1", now, BODY), BODY),
            (now, signature([other, key], "ev_1", now, BODY), BODY),
            (now, signature([key], "ev_1", now, BODY), BODY + b" "),
            (now, signature([other], "ev_1", now, BODY), BODY),
            (now - 86_400, signature([key], "ev_1", now - 86_400, BODY), BODY),
        ]
        for head in (
            "",
            "webhook-timestamp: x",
            f"webhook-timestamp: {now}\r\nwebhook-signature: v1,\xfc",
            f"webhook-timestamp: {'9' * 400}",
        ):
            await _say(port, f"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 1\r\n{head}\r\n\r\nx")
        return [(await endpoint.post("ev_1", *each)).status for each in [*asked, asked[0]]]
    finally:
        endpoint.close()
        await asyncio.sleep(0)


async def _say(port: int, request: str) -> None:
    """Whatever the answer is, if there is one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode("latin-1"))
    status = await reader.readuntil(b"\r\n")
    writer.close()
    await writer.wait_closed()
    assert status.split(b" ")[1:2] in ([b"401"], [b"400"]), (request, status)


async def _until_it_listens(port: int) -> None:
    async with asyncio.timeout(LISTEN_S_MAX):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)  # another program sends no event when it listens
                continue
            writer.close()
            await writer.wait_closed()
            return


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "file", "command"),
    [
        ("python", "receiver.py", [sys.executable]),
        ("js", "receiver.mjs", ["node"]),
        pytest.param(
            "go",
            "receiver.go",
            ["go", "run"],
            marks=pytest.mark.skipif(not IS_FREE, reason="building it takes a minute"),
        ),
    ],
)
async def test_the_receivers_of_the_docs_verify(
    tmp_path: Path, language: str, file: str, command: Sequence[str]
) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    (code,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)
    port = free_port()
    (tmp_path / file).write_text(code.replace("4100", str(port)))
    process = await asyncio.create_subprocess_exec(*command, str(tmp_path / file), start_new_session=True)
    try:
        assert await _verdicts(port) == [204, 204, 401, 401, 401, 204]
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # `go run` has a child
        await process.wait()


async def test_what_listen_shows_is_verified() -> None:
    shown: list[Received] = []
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(
            0,
            key=key_of(SECRET),
            status=204,
            show=shown.append,
            ready=lambda url: port.set_result(int(url.rsplit(":", 1)[1].strip("/"))),
        )
    )
    assert await _verdicts(await port) == [204, 204, 401, 401, 401, 204]
    assert [each.is_signed for each in shown] == [False] * 4 + [True, True, False, False, False, True]
    serving.cancel()
    await asyncio.wait([serving])


def test_a_secret_is_base64_of_32_bytes_with_its_prefix() -> None:
    assert key_of(SECRET) == b64decode(SECRET.removeprefix("whsec_"))
    with pytest.raises(ValueError, match="secret"):
        key_of("whsec_###")
