"""Posts a message to an endpoint and reports the result. Whatever the endpoint does, no error is raised. Connections
are kept open between messages. The host is resolved for each new connection, and connections are made only to addresses
that the guard allows. Redirects are not followed. A response is read up to a size limit. One time limit covers the
whole request, so a slow server cannot extend it by sending a byte now and then.
"""

import asyncio
import ssl
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from functools import cache

import httptools

from fairpost.model.reason import Reason
from fairpost.model.webhook import Answered
from fairpost.policy.networks import Address
from fairpost.policy.webhooks import judged
from fairpost.smtp.guard import NetworkGuard, NotAllowed
from fairpost.system import clock
from fairpost.webhooks.urls import Target, addresses, target_of

REQUEST_S_MAX = 10.0
CONNECT_S_MAX = 5.0
RESPONSE_BYTES_MAX = 65_536
ANSWER_CHARS_MAX = 500
IDLE_S_MAX = 20.0
KEPT_MAX = 16  # idle connections kept open for one endpoint

Tls = Callable[[], ssl.SSLContext]


@cache
def system_tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class Broken(Exception):
    """The connection ended before the response was complete. `is_untouched` means that not a single byte of a response
    had arrived.
    """

    def __init__(self, words: str, *, is_untouched: bool) -> None:
        super().__init__(words)
        self.is_untouched = is_untouched


class Connection(asyncio.Protocol):
    """A connection that carries one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._begin()
        self.idle_since_s = clock.steady()
        self.is_used = False

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._kept = self._received = 0
        self._has_length = self._is_complete = False
        self.retry_after: str | None = None
        self.status: int | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def answer(self) -> str:
        return b"".join(self._body).decode("utf-8", "replace").replace("\0", "\ufffd")[:ANSWER_CHARS_MAX]

    async def request(self, raw: bytes) -> int:
        """Send a request and return the status. Raises Broken."""
        assert self._waiter is None
        if not self.is_open:
            raise Broken("the connection is closed", is_untouched=True)
        assert self._transport is not None
        self._begin()
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(raw)
        try:
            await self._waiter
        finally:
            self._waiter = None
        self.is_used = True
        self.idle_since_s = clock.steady()
        assert self.status is not None
        return self.status

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # ── called by the event loop ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():  # the server sent data although there was no request
            self.close()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            problem = "the server switches protocols" if isinstance(error, httptools.HttpParserUpgrade) else error
            self._end(Broken(f"not HTTP: {problem}", is_untouched=False))
            self.close()
            return
        if self._received > RESPONSE_BYTES_MAX and self._waiter is not None and not self._waiter.done():
            self.close()
            too_long = Broken(f"the response exceeds {RESPONSE_BYTES_MAX} bytes", is_untouched=False)
            self._end(None if self.status is not None else too_long)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        # Without a length, the response ends when the connection is closed.
        if self.status is not None and not self._has_length and exc is None:
            self._end(None)
            return
        is_untouched = self._received == 0
        self._end(Broken(str(exc or "the server closed the connection"), is_untouched=is_untouched))

    def _end(self, error: Broken | None) -> None:
        if self._waiter is not None and not self._waiter.done():
            if error is None:
                self._waiter.set_result(None)
            else:
                self._waiter.set_exception(error)

    # ── called by the parser, also for interim responses such as 103 Early Hints, and for data after the response ──

    def on_header(self, name: bytes, value: bytes) -> None:
        match name.lower():
            case b"retry-after":
                self.retry_after = value.decode("latin-1")
            case b"content-length" | b"transfer-encoding":
                self._has_length = True

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200 and self.status is None:
            self.status = status

    def on_body(self, body: bytes) -> None:
        if not self._is_complete and self._kept < 4 * ANSWER_CHARS_MAX:
            self._body.append(body[: 4 * ANSWER_CHARS_MAX - self._kept])
            self._kept += len(body)

    def on_message_complete(self) -> None:
        if self.status is None:
            return
        if self._is_complete:
            self.close()
            return
        self._is_complete = True
        if not self._parser.should_keep_alive() and self._transport is not None:
            self._transport.close()
        self._end(None)


class Endpoint:
    """The connections to one URL. With `is_operators`, the URL may point to any network, and the events sent to it
    contain all account names.
    """

    def __init__(self, url: str, guard: NetworkGuard, *, is_operators: bool, tls: Tls = system_tls) -> None:
        self.url = url
        self._target: Target = target_of(url)
        self._guard = guard
        self.is_operators = is_operators
        self._tls = tls
        self._free: list[Connection] = []
        self._look_up: asyncio.Task[list[Address]] | None = None
        self._head = (
            f"POST {self._target.path} HTTP/1.1\r\nhost: {self._target.authority}\r\n"
            "content-type: application/json\r\nuser-agent: Fairpost\r\naccept: */*\r\n"
        )

    async def post(self, message_id: str, timestamp: int, signature: str, body: bytes) -> Answered:
        began_s = clock.steady()
        head = (
            f"{self._head}webhook-id: {message_id}\r\nwebhook-timestamp: {timestamp}\r\n"
            f"webhook-signature: {signature}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        found = await self._posted(head.encode() + body)
        status, why, connection = found
        return Answered(
            status=status,
            why=why,
            answer=connection.answer if connection is not None and status is not None else "",
            duration_ms=round((clock.steady() - began_s) * 1000),
            retry_after_s=_seconds(connection.retry_after) if connection is not None and why is not None else None,
        )

    async def _posted(self, raw: bytes) -> tuple[int | None, Reason | None, Connection | None]:
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                connection = await self._exchanged(raw)
        except TimeoutError:
            return None, Reason("webhook.timeout", seconds=REQUEST_S_MAX), None
        except NotAllowed as error:
            return None, Reason("webhook.forbidden", error=str(error)), None
        except ssl.SSLError as error:
            return None, Reason("webhook.tls", error=_said(error)), None
        except Broken as error:
            return None, Reason("webhook.broken", error=_said(error)), None
        except (OSError, ValueError) as error:
            return None, Reason("webhook.unreachable", error=_said(error)), None
        assert connection.status is not None
        return connection.status, judged(connection.status), connection

    async def _exchanged(self, raw: bytes) -> Connection:
        """Send a request. If the server has closed the idle connection in the meantime, try again once over a new
        connection.
        """
        connection = self._taken() or await self._connected()
        is_old = connection.is_used
        try:
            await connection.request(raw)
        except Broken as error:
            connection.close()
            if not (is_old and error.is_untouched):
                raise
            connection = await self._connected()
            await self._asked(connection, raw)
        except BaseException:
            connection.close()
            raise
        if connection.is_open and len(self._free) < KEPT_MAX:
            self._free.append(connection)
        else:
            connection.close()
        return connection

    async def _asked(self, connection: Connection, raw: bytes) -> None:
        try:
            await connection.request(raw)
        except BaseException:
            connection.close()
            raise

    def _taken(self) -> Connection | None:
        while self._free:
            connection = self._free.pop()
            if connection.is_open and clock.steady() - connection.idle_since_s < IDLE_S_MAX:
                return connection
            connection.close()
        return None

    async def _connected(self) -> Connection:
        target, loop = self._target, asyncio.get_running_loop()
        found = await self._found()
        tls = {"ssl": self._tls(), "server_hostname": target.host} if target.is_tls else {}
        for left, address in zip(range(len(found) - 1, -1, -1), found, strict=True):
            try:
                async with asyncio.timeout(CONNECT_S_MAX):
                    _, connection = await loop.create_connection(Connection, str(address), target.port, **tls)  # type: ignore[call-overload]
            except ssl.SSLError:
                raise
            except TimeoutError:
                if not left:
                    raise OSError("the server did not accept the connection") from None
            except OSError:
                if not left:
                    raise
            else:
                return connection  # type: ignore[no-any-return]
        raise OSError("no address")

    async def _found(self) -> list[Address]:
        """Look up the host once for all connections that need its addresses now, because a lookup that waits for an
        unresponsive DNS server keeps its thread busy even after the time limit.
        """
        if self._look_up is None or self._look_up.done():
            looking = addresses(self._target, self._guard, is_operators=self.is_operators)
            self._look_up = asyncio.create_task(looking)
            self._look_up.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self._look_up)

    @property
    def is_idle(self) -> bool:
        """Whether each connection is closed or has been idle for so long that the server will soon close it."""
        return all(clock.steady() - each.idle_since_s >= IDLE_S_MAX or not each.is_open for each in self._free)

    def close(self) -> None:
        if self._look_up is not None:
            self._look_up.cancel()
        while self._free:
            self._free.pop().close()


def _said(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:200]


def _seconds(retry_after: str | None) -> float | None:
    """Read a Retry-After header, which contains either seconds or a date."""
    if retry_after is None or retry_after.isdecimal():
        return float(retry_after) if retry_after and len(retry_after) < 7 else None
    try:
        return max(0.0, (parsedate_to_datetime(retry_after) - clock.now()).total_seconds())
    except (ValueError, TypeError, OverflowError):  # includes a date without a time zone
        return None
