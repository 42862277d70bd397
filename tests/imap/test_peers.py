"""The client and the reader against real IMAP servers."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fairpost.imap.client import Connection, LoginRefused
from fairpost.model.transport import Security
from fairpost.smtp.auth import Password
from fairpost.smtp.server import Server
from fairpost.transports.reading import Found, Position
from fairpost.transports.smtp.read import ImapReader, imap_reader
from fairpost.transports.smtp.settings import SmtpSettings
from tests.peers.certificates import Certificates
from tests.peers.fetch import PeerMissing
from tests.peers.imap import LOGIN, ImapPeer, courier, dovecot

MAIL = b"Message-ID: <%d@x>\r\nSubject: hello\r\n\r\nhi\r\n"


@pytest.fixture(scope="module")
def peer(certificates: Certificates) -> Iterator[ImapPeer]:
    try:
        with dovecot(certificates.good) as made:
            yield made
    except PeerMissing as missing:
        pytest.skip(str(missing))


def reader_of(peer: ImapPeer, certificates: Certificates) -> ImapReader:
    settings = SmtpSettings(
        host="localhost",
        port=25,
        user=LOGIN.username,
        ca_file=str(certificates.ca),
        read=True,
        imap=f"imaps://localhost:{peer.tls_port}",
    )
    return imap_reader(settings, LOGIN.password, account="ann", guard=None)


async def look(reader: ImapReader, position: Position | None) -> list[Found]:
    return [found async for found in reader.look(position, since=datetime.now(UTC))]


async def test_new_mail_is_read_and_stays_unread(peer: ImapPeer, certificates: Certificates) -> None:
    peer.deliver(MAIL % 1)
    reader = reader_of(peer, certificates)
    begin = await look(reader, None)
    assert [each.raw for each in begin] == [None]
    waiting = asyncio.create_task(reader.wait())
    peer.deliver(MAIL % 2)
    peer.deliver(MAIL % 3)
    assert await waiting
    found: list[Found] = []
    position = begin[-1].position
    while len(mails := [each for each in found if each.raw]) < 2:
        found += await look(reader, position)
        position = found[-1].position
    assert sorted(each.raw for each in mails if each.raw) == [MAIL % 2, MAIL % 3]
    assert [each.raw for each in await look(reader, position) if each.raw] == []
    await reader.close()
    assert "S" not in peer.flags()


@pytest.mark.parametrize("security", [Security.STARTTLS, Security.IMPLICIT, Security.NONE])
async def test_sent_mail_is_found_by_its_message_id(
    peer: ImapPeer, certificates: Certificates, security: Security
) -> None:
    port = peer.tls_port if security is Security.IMPLICIT else peer.port
    server = Server(host="localhost", port=port, security=security, ca_file=str(certificates.ca))
    named = f"<{security}@x>"
    connection = await Connection.open(server, Password(user=LOGIN.username, secret=LOGIN.password))
    folder = await connection.sent_folder()
    assert folder == "Gesendete Objekte"
    await connection.examine("Entwürfe")
    await connection.examine(folder)
    assert not await connection.has_message(named)
    peer.file_as_sent(f"Message-ID: {named}\r\n\r\nhi\r\n".encode())
    await connection.examine(folder)
    assert await connection.has_message(named)
    await connection.logout()


async def test_a_huge_message_is_read_up_to_a_limit(peer: ImapPeer, certificates: Certificates) -> None:
    reader = reader_of(peer, certificates)
    begin = (await look(reader, None))[-1].position
    peer.deliver(MAIL % 9 + b"x" * 70 + b"\r\n" + (b"y" * 70 + b"\r\n") * 200_000)
    found: list[Found] = []
    while not found or found[0].raw is None:
        found = await look(reader, begin)
    assert len(found[0].raw) == 1_048_576
    await reader.close()


async def test_a_wrong_password_is_refused(peer: ImapPeer) -> None:
    server = Server(host="localhost", port=peer.port, security=Security.NONE)
    with pytest.raises(LoginRefused):
        await Connection.open(server, Password(user=LOGIN.username, secret="wrong"))


async def test_a_server_that_logs_in_by_itself_and_tells_no_next_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpost.transports.smtp.read.POLL_S", 0.01)
    for folder in ("cur", "new", "tmp"):
        (tmp_path / folder).mkdir()
    (tmp_path / "new" / "1.old").write_bytes((MAIL % 1).replace(b"\r\n", b"\n"))
    try:
        with courier(tmp_path) as port:
            settings = SmtpSettings(host="localhost", port=25, user="ann", read=True, imap=f"imap://127.0.0.1:{port}")
            reader = imap_reader(settings, "secret", account="ann", guard=None)
            begin = (await look(reader, None))[-1].position
            (tmp_path / "new" / "2.new").write_bytes((MAIL % 2).replace(b"\r\n", b"\n"))
            assert await reader.wait()
            found = await look(reader, begin)
            assert [each.raw for each in found if each.raw] == [MAIL % 2]
            assert [each.raw for each in await look(reader, found[-1].position) if each.raw] == []
            await reader.close()
    except PeerMissing as missing:
        pytest.skip(str(missing))
    assert not [path.name for path in (tmp_path / "cur").iterdir() if "S" in path.name.partition(":2,")[2]]
