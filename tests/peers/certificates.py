"""Our own certificate authority, and the certificates that a client must accept or reject.

Created for each run, so that no key is in the repository and none expires.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HOST = "localhost"
OTHER_HOST = "mail.example.net"
ADDRESS = IPv4Address("127.0.0.1")
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Certificate:
    cert: Path
    key: Path


@dataclass(frozen=True, kw_only=True)
class Certificates:
    ca: Path
    """What a client trusts to accept `good`; it signed all the others but `self_signed` too."""
    good: Certificate
    expired: Certificate
    not_yet_valid: Certificate
    wrong_host: Certificate
    self_signed: Certificate


def make_certificates(folder: Path) -> Certificates:
    now = datetime.now(UTC)
    issuer = _Issuer(folder, now)
    valid = (now - DAY, now + DAY)
    return Certificates(
        ca=issuer.ca,
        good=issuer.sign("good", HOST, valid),
        expired=issuer.sign("expired", HOST, (now - 2 * DAY, now - DAY)),
        not_yet_valid=issuer.sign("not_yet_valid", HOST, (now + DAY, now + 2 * DAY)),
        wrong_host=issuer.sign("wrong_host", OTHER_HOST, valid),
        self_signed=issuer.sign("self_signed", HOST, valid, by_itself=True),
    )


class _Issuer:
    def __init__(self, folder: Path, now: datetime) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Fairpost test authority")
        public = self._key.public_key()
        certificate = (
            _builder(public, subject=self._name, issuer=self._name, valid=(now - 3 * DAY, now + 3 * DAY))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(ca=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def sign(self, file: str, host: str, valid: tuple[datetime, datetime], *, by_itself: bool = False) -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        signer, issuer = (key, _name(host)) if by_itself else (self._key, self._name)
        names: list[x509.GeneralName] = [x509.DNSName(host)]
        if host == HOST:
            names.append(x509.IPAddress(ADDRESS))
        certificate = (
            _builder(key.public_key(), subject=_name(host), issuer=issuer, valid=valid)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
            .sign(signer, hashes.SHA256())
        )
        made = Certificate(self._folder / f"{file}.pem", self._folder / f"{file}.key")
        made.cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        made.key.touch(mode=0o600)
        made.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return made


def _builder(
    public: ec.EllipticCurvePublicKey, *, subject: x509.Name, issuer: x509.Name, valid: tuple[datetime, datetime]
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )
