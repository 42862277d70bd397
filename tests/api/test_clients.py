"""A network address that opens more than its share of connections, over real sockets, is refused, while others are
served."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_network

import httpx2 as httpx
import pytest

from fairpost.api import protocol, serve
from fairpost.api.clients import ClientLimits, Clients
from fairpost.settings import read_settings
from tests.api.served import Served, served
from tests.conftest import Databases

CONNECTIONS_MAX, HEADS_MAX = 40, 20
STRANGER, OTHER = "127.0.0.2", "127.0.0.3"
HALF = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Drip: "
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
WAIT_S_MAX = 60


pytestmark = pytest.mark.attack


@pytest.fixture(scope="module")
def url(databases: Databases) -> Iterator[str]:
    with databases.new() as made:
        yield made


@contextmanager
def service(url: str, home: object, **settings: str) -> Iterator[Served]:
    with served(
        read_settings(
            {
                "FAIRPOST_HOME": str(home),
                "FAIRPOST_DATABASE_URL": url,
                "FAIRPOST_CLIENT_CONNECTIONS_MAX": str(CONNECTIONS_MAX),
                "FAIRPOST_CLIENT_HEADS_MAX": str(HEADS_MAX),
                **settings,
            }
        )
    ) as it:
        yield it


@pytest.fixture
def it(url: str, tmp_path: object) -> Iterator[Served]:
    with service(url, tmp_path) as running:
        yield running


def connected(it: Served, source: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", it.port), timeout=WAIT_S_MAX, source_address=(source, 0))


def told(conn: socket.socket) -> bytes:
    """Returns the data received until a pause; empty if the connection was closed silently."""
    try:
        return conn.recv(65_536)
    except ConnectionError:
        return b""


def status(it: Served, source: str, path: str = "/healthz", **headers: str) -> int:
    with httpx.Client(
        transport=httpx.HTTPTransport(local_address=source), base_url=it.url, timeout=WAIT_S_MAX
    ) as client:
        return client.get(path, headers=headers).status_code


def is_refused(conn: socket.socket) -> bool:
    answer = told(conn)
    if not answer:
        return True
    head, _, body = answer.partition(b"\r\n\r\n")
    return b" 429 " in head and b"Retry-After: " in head and json.loads(body)["error"]["code"] == "rate_limited"


def opened(stack: ExitStack, it: Served, n: int, *, source: str = STRANGER, saying: bytes = b"") -> list[socket.socket]:
    conns = []
    for _ in range(n):
        conn = stack.enter_context(connected(it, source))
        if saying:
            conn.sendall(saying)
        conns.append(conn)
    return conns


def test_half_open_heads_of_one_address_leave_the_others_served(it: Served) -> None:
    with ExitStack() as stack:
        slow = opened(stack, it, CONNECTIONS_MAX, saying=HALF)
        for conn in opened(stack, it, 100):
            assert is_refused(conn)
            assert status(it, OTHER) == 200
        assert [is_refused(conn) for conn in slow[HEADS_MAX:]] == [True] * (CONNECTIONS_MAX - HEADS_MAX)
        assert status(it, OTHER, "/readyz") == 200
        assert status(it, STRANGER) == 200, "a client at the same address that sends a complete head is also served"


def test_idle_connections_of_one_address_leave_the_others_served(it: Served) -> None:
    with ExitStack() as stack:
        for conn in opened(stack, it, CONNECTIONS_MAX, saying=WHOLE):
            assert b" 200 " in told(conn)
        for conn in opened(stack, it, 10):
            assert is_refused(conn)
        assert status(it, OTHER) == 200
    assert status(it, STRANGER) == 200, "once they are gone, it may connect again"


def test_heads_that_begin_on_kept_connections_count(it: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_S_MAX", 2.0)
    with ExitStack() as stack:
        kept = opened(stack, it, HEADS_MAX + 1, saying=WHOLE)
        for conn in kept:
            assert b" 200 " in told(conn)
        for conn in kept:
            conn.sendall(HALF)
        assert sum(b" 429 " in _rest(conn) for conn in kept) == 1
        assert status(it, OTHER) == 200


def _rest(conn: socket.socket) -> bytes:
    found = b""
    while piece := told(conn):
        found += piece
    return found


def test_a_full_process_drops_an_idle_connection_of_the_busiest_client(
    url: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "CONNECTIONS_AT_ONCE", 30)
    with service(url, tmp_path) as it, ExitStack() as stack:
        for n in range(4, 10):  # six addresses below their limits fill the process together
            for conn in opened(stack, it, 5, source=f"127.0.0.{n}", saying=WHOLE):
                told(conn)
        for _ in range(3):
            assert status(it, OTHER) == 200


def test_more_half_open_heads_than_the_process_has_room_for_keep_no_other_address_out(
    url: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "CONNECTIONS_AT_ONCE", 100)
    with service(url, tmp_path) as it, ExitStack() as stack:
        for _ in range(6):
            opened(stack, it, 50, saying=HALF)  # all stay open on this side
            assert status(it, OTHER) == 200
        assert status(it, OTHER, "/readyz") == 200


def test_behind_a_trusted_proxy_requests_count_for_whom_it_names(url: str, tmp_path: object) -> None:
    slow = b"POST /v1/auth/sign-in HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n{"
    with service(url, tmp_path, FAIRPOST_TRUSTED_PROXIES=f"{STRANGER}/32") as it, ExitStack() as stack:
        opened(stack, it, CONNECTIONS_MAX, saying=slow)
        while status(it, STRANGER, **{"X-Forwarded-For": "192.0.2.7"}) == 200:
            pass  # they are on their way
        assert status(it, STRANGER, **{"X-Forwarded-For": "192.0.2.7"}) == 429
        assert status(it, STRANGER, **{"X-Forwarded-For": "192.0.2.8"}) == 200
        assert status(it, OTHER, **{"X-Forwarded-For": "192.0.2.7"}) == 200, (
            "headers from other addresses are not trusted"
        )


class Idle:
    is_idle = True

    def drop(self) -> None:
        raise AssertionError("there is room")


def test_a_64_of_ipv6_is_one_client_and_a_proxy_is_none() -> None:
    clients = Clients(ClientLimits(connections_max=2, trusted_proxies=(ip_network("fd00::/8"),)))
    assert clients.client_at("2001:db8::1") == clients.client_at("2001:db8::ffff")
    assert clients.client_at("2001:db8::1") != clients.client_at("2001:db8:0:1::1")
    assert clients.client_at("fd00::1") is None
    one = clients.client_at("2001:db8::1")
    conns = [Idle() for _ in range(3)]
    assert [clients.add(one, conn) for conn in conns] == [True, True, False]
    clients.remove(one, conns[0])
    assert clients.add(one, conns[2])


def test_an_unfinished_head_makes_room_when_it_is_cut_off(it: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_S_MAX", 0.5)
    with ExitStack() as stack:
        for conn in opened(stack, it, HEADS_MAX, saying=HALF):
            assert b" 408 " in told(conn)
        assert status(it, STRANGER) == 200
