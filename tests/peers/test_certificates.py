import ssl
from pathlib import Path

import pytest

from tests.peers.certificates import HOST, OTHER_HOST, Certificate, Certificates, make_certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("host", [HOST, "127.0.0.1"])
def test_the_good_one_is_accepted(certificates: Certificates, host: str) -> None:
    shake_hands(certificates.ca, certificates.good, host)


def test_the_one_for_another_host_is_good_there(certificates: Certificates) -> None:
    shake_hands(certificates.ca, certificates.wrong_host, OTHER_HOST)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("expired", "certificate has expired"),
        ("not_yet_valid", "certificate is not yet valid"),
        ("wrong_host", "Hostname mismatch"),
        ("self_signed", "self-signed certificate"),
    ],
)
def test_the_others_are_refused_for_their_own_reason(certificates: Certificates, name: str, reason: str) -> None:
    bad = getattr(certificates, name)
    with pytest.raises(ssl.SSLCertVerificationError, match=reason):
        shake_hands(certificates.ca, bad, HOST)


def shake_hands(ca: Path, served: Certificate, host: str) -> None:
    """Without a network: what one side writes, the other reads from memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(served.cert, served.key)
    client = ssl.create_default_context(cafile=str(ca)).wrap_bio(to_client, to_server, server_hostname=host)
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert client.version() == "TLSv1.3"
