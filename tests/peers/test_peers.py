"""The peers themselves, tested with the standard library's client, so that other tests can rely on them."""

import os
import re
import signal
import smtplib
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import get_args

import pytest

from tests.peers import servers
from tests.peers.certificates import HOST, Certificates, make_certificates
from tests.peers.servers import Login, Name, PeerBroken, Server, smtp_sink, why_not

Start = Callable[..., AbstractContextManager[Server]]

REAL = ("postfix", "exim", "opensmtpd")
LOGIN = Login("robin", "correct horse")
SENDER, RECIPIENT, OTHER = "ada@sender.test", "bob@example.test", "cleo@example.test"
CONTENT = "Subject: hello\r\n\r\nA line\r\n.and one with a dot\r\n"
PATHS_OF_OTHERS = (
    "/etc/postfix",
    "/etc/exim4",
    "/var/spool/postfix",
    "/var/spool/exim4",
    "/var/spool/smtpd",
    "/var/software",
)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def trusting(certificates: Certificates) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificates.ca))


@pytest.fixture
def sink_runs() -> None:
    skip_without("smtp_sink")


@pytest.fixture(params=REAL)
def start(request: pytest.FixtureRequest) -> Start:
    return starter(request.param, tls=False)


@pytest.fixture(params=REAL)
def start_with_tls(request: pytest.FixtureRequest) -> Start:
    return starter(request.param, tls=True)


def starter(name: Name, *, tls: bool) -> Start:
    skip_without(name, tls=tls)
    function: Start = getattr(servers, name)
    return function


def skip_without(name: Name, *, tls: bool = False) -> None:
    if reason := why_not(name, tls=tls):
        pytest.skip(reason)


def send(client: smtplib.SMTP, *recipients: str) -> None:
    assert client.sendmail(SENDER, recipients or [RECIPIENT], CONTENT) == {}


def assert_is_ours(server: Server) -> None:
    [mail] = server.wait_for(1)
    assert (mail.sender, mail.recipients) == (SENDER, (RECIPIENT,))
    assert mail.message["Subject"] == "hello"
    assert mail.content.endswith(b"\n\nA line\n.and one with a dot\n")


def pipelined(server: Server) -> list[int]:
    """Sends a session in three writes and reads the replies only then. Returns their codes."""
    with socket.create_connection((server.host, server.port), timeout=60) as connection:
        replies = replies_on(connection)
        codes = [next(replies)]
        connection.sendall(b"EHLO client.test\r\n")
        codes.append(next(replies))
        envelope = f"MAIL FROM:<{SENDER}>\r\nRCPT TO:<{RECIPIENT}>\r\nRCPT TO:<{OTHER}>\r\nDATA\r\n"
        connection.sendall(envelope.encode())
        codes += [next(replies) for _ in range(4)]
        connection.sendall(CONTENT.replace("\r\n.", "\r\n..").encode() + b".\r\nQUIT\r\n")
        return codes + list(replies)


def replies_on(connection: socket.socket) -> Iterator[int]:
    with connection.makefile("rb") as file:
        for line in file:
            if line[3:4] != b"-":
                yield int(line[:3])


@pytest.mark.usefixtures("sink_runs")
class TestSink:
    def test_it_keeps_what_it_is_sent(self) -> None:
        with smtp_sink(dump=True) as sink, smtplib.SMTP(sink.host, sink.port) as client:
            send(client)
            assert_is_ours(sink)

    def test_it_keeps_the_recipients_of_a_transaction_together(self) -> None:
        with smtp_sink(dump=True) as sink:
            assert pipelined(sink) == [220, 250, 250, 250, 250, 354, 250, 221]
            [mail] = sink.wait_for(1)
            assert mail.recipients == (RECIPIENT, OTHER)

    def test_it_counts(self) -> None:
        with smtp_sink(count=True) as sink:
            assert sink.counters() == servers.Counters(sessions=0, quits=0, messages=0)
            for _ in range(3):
                with smtplib.SMTP(sink.host, sink.port) as client:
                    send(client)
                    send(client)
            assert sink.counters().messages == 6

    @pytest.mark.parametrize(("flag", "code"), [("-r", 450), ("-f", 500)])
    def test_it_refuses_on_command(self, flag: str, code: int) -> None:
        with smtp_sink(flags=[flag, "RCPT"]) as sink, smtplib.SMTP(sink.host, sink.port) as client:
            with pytest.raises(smtplib.SMTPRecipientsRefused) as refused:
                send(client)
            assert refused.value.recipients[RECIPIENT][0] == code

    def test_it_hangs_up_on_command_and_may_have_the_mail(self) -> None:
        with smtp_sink(dump=True, flags=["-q", "."]) as sink:
            client = smtplib.SMTP(sink.host, sink.port)
            with pytest.raises(smtplib.SMTPServerDisconnected):
                send(client)
            assert_is_ours(sink)

    def test_its_first_session_is_the_clients(self) -> None:
        with smtp_sink(flags=["-n", "1"]) as sink, smtplib.SMTP(sink.host, sink.port) as client:
            send(client)

    def test_a_transaction_under_way_is_not_read(self) -> None:
        with smtp_sink(dump=True) as sink, smtplib.SMTP(sink.host, sink.port) as client:
            client.ehlo()
            client.mail(SENDER)
            client.rcpt(RECIPIENT)
            client.docmd("DATA")
            assert sink.received() == []
            client.send(b"Subject: hello\r\n\r\nA line\r\n.\r\n")
            assert client.getreply()[0] == 250
            assert len(sink.received()) == 1

    def test_it_takes_many_over_many_connections(self) -> None:
        one = f"MAIL FROM:<{SENDER}>\r\nRCPT TO:<{RECIPIENT}>\r\nDATA\r\n{CONTENT}.\r\n"
        with smtp_sink(count=True) as sink:
            connections = [socket.create_connection((sink.host, sink.port), timeout=60) for _ in range(100)]
            for connection in connections:
                connection.sendall(b"EHLO client.test\r\n" + one.encode() * 10)
            for connection in connections:
                with connection:
                    codes = replies_on(connection)
                    assert [next(codes) for _ in range(2 + 10 * 4)].count(354) == 10
            assert sink.counters().messages == 1_000


class TestRealServers:
    def test_a_mail_arrives(self, start: Start) -> None:
        with start() as server:
            with smtplib.SMTP(server.host, server.port) as client:
                send(client)
            assert_is_ours(server)

    @pytest.mark.parametrize("name", ["postfix", "exim"])
    def test_a_pipelined_session_arrives_once_for_each_recipient(self, name: Name) -> None:
        with starter(name, tls=False)() as server:
            assert pipelined(server) == [220, 250, 250, 250, 250, 354, 250, 221]
            assert sorted(mail.recipients for mail in server.wait_for(2)) == [(RECIPIENT,), (OTHER,)]

    def test_opensmtpd_announces_no_pipelining(self) -> None:
        with starter("opensmtpd", tls=False)() as server, smtplib.SMTP(server.host, server.port) as client:
            client.ehlo()
            assert client.esmtp_features
            assert not client.has_extn("pipelining")

    def test_starttls(self, start_with_tls: Start, certificates: Certificates, trusting: ssl.SSLContext) -> None:
        with start_with_tls(tls=certificates.good) as server:
            with smtplib.SMTP(HOST, server.port) as client:
                client.starttls(context=trusting)
                send(client)
            assert_is_ours(server)

    def test_implicit_tls(self, start_with_tls: Start, certificates: Certificates, trusting: ssl.SSLContext) -> None:
        with start_with_tls(tls=certificates.good) as server:
            assert server.tls_port is not None
            with smtplib.SMTP_SSL(HOST, server.tls_port, context=trusting) as client:
                send(client)
            assert_is_ours(server)

    def test_a_bad_certificate_is_served_as_given(
        self, start_with_tls: Start, certificates: Certificates, trusting: ssl.SSLContext
    ) -> None:
        with start_with_tls(tls=certificates.expired) as server:
            assert server.tls_port is not None
            with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
                smtplib.SMTP_SSL(HOST, server.tls_port, context=trusting)

    @pytest.mark.parametrize("method", ["PLAIN", "LOGIN"])
    def test_an_authenticated_client_may_send(
        self, start_with_tls: Start, certificates: Certificates, trusting: ssl.SSLContext, method: str
    ) -> None:
        with start_with_tls(tls=certificates.good, login=LOGIN) as server:
            with smtplib.SMTP(HOST, server.port) as client:
                client.starttls(context=trusting)
                client.ehlo()
                client.user, client.password = LOGIN
                code, _ = client.auth(method, getattr(client, f"auth_{method.lower()}"))
                assert code == 235
                send(client)
            assert_is_ours(server)

    def test_an_unauthenticated_client_may_not_send(
        self, start_with_tls: Start, certificates: Certificates, trusting: ssl.SSLContext
    ) -> None:
        with (
            start_with_tls(tls=certificates.good, login=LOGIN) as server,
            smtplib.SMTP(HOST, server.port) as client,
        ):
            client.starttls(context=trusting)
            with pytest.raises(smtplib.SMTPAuthenticationError):
                client.login(LOGIN.username, "wrong")
            with pytest.raises(smtplib.SMTPRecipientsRefused):
                send(client)

    @pytest.mark.usefixtures("sink_runs")
    def test_it_relays_to_a_next_hop(self, start: Start) -> None:
        with smtp_sink(dump=True) as sink, start(relay_to=(sink.host, sink.port)) as server:
            with smtplib.SMTP(server.host, server.port) as client:
                send(client)
            assert_is_ours(sink)
            assert server.received() == []

    @pytest.mark.parametrize(
        ("name", "settings"),
        [
            ("postfix", {"message_size_limit": "4321"}),
            ("exim", "message_size_limit = 4321"),
            ("opensmtpd", "smtp max-message-size 4321"),
        ],
    )
    def test_settings_reach_the_server(self, name: Name, settings: object) -> None:
        with starter(name, tls=False)(settings=settings) as server, smtplib.SMTP(server.host, server.port) as client:
            client.ehlo()
            assert client.esmtp_features["size"] == "4321"

    def test_the_system_stays_unchanged(self, start: Start) -> None:
        before = state_of_the_system()
        with start() as server, smtplib.SMTP(server.host, server.port) as client:
            send(client)
            assert_is_ours(server)
            assert state_of_the_system() == before
        assert state_of_the_system() == before


def state_of_the_system() -> tuple[object, ...]:
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if "fp-peer" in line]
    return [os.path.exists(path) for path in PATHS_OF_OTHERS], Path("/etc/passwd").read_bytes(), mounts


class TestTheEnd:
    @pytest.mark.parametrize("name", get_args(Name))
    def test_nothing_is_left_when_a_test_fails(self, name: Name) -> None:
        server, family = start_and_fail(starter(name, tls=False))
        assert not [pid for pid in family if is_alive(pid)]
        assert not server.log.parent.exists()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((server.host, server.port))

    @pytest.mark.parametrize("name", get_args(Name))
    def test_a_server_dies_with_the_process_that_started_it(self, name: Name, tmp_path: Path) -> None:
        skip_without(name)
        program = (
            "import time\nfrom tests.peers import servers\n"
            f"with servers.{name}() as server: print(server.pid, flush=True); time.sleep(60)"
        )
        here = os.environ | {"TMPDIR": str(tmp_path)}  # its folder remains, because no process is left to remove it
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=here) as owner:
            assert owner.stdout is not None
            pid = int(owner.stdout.readline())
            family = descendants(pid)
            owner.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 60
        while any(map(is_alive, family)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not [pid for pid in family if is_alive(pid)]

    def test_a_server_that_does_not_start_says_why(self) -> None:
        skip_without("smtp_sink")
        with pytest.raises(PeerBroken, match="usage"), smtp_sink(flags=["-?"]):
            pass

    @pytest.mark.parametrize("name", ["exim", "opensmtpd"])
    def test_a_server_with_a_bad_setting_says_why(self, name: Name) -> None:
        start = starter(name, tls=False)
        with (
            pytest.raises(PeerBroken, match=r"(?s)ended at once.*(unknown|syntax error)"),
            start(settings="bad_setting"),
        ):
            pass


def start_and_fail(start: Start) -> tuple[Server, list[int]]:
    family: list[int] = []
    try:
        with start() as server:
            assert server.log.parent.is_dir()  # the file itself is created with the first output, which may be later
            family = descendants(server.pid)
            raise ZeroDivisionError
    except ZeroDivisionError:
        return server, family


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in descendants(int(child)))]


def is_alive(pid: int) -> bool:
    try:
        state = re.search(r"^State:\s+(\w)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state is None or state[1] != "Z"
