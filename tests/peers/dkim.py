"""Independent verifiers of DKIM signatures: dkimpy, opendkim, and Perl's Mail::DKIM. Each reports how many signatures
of every message are valid. Keys come from a table instead of DNS."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import dkim

from tests.peers.fetch import require

SECONDS_MAX = 300
KEYS = Mapping[str, str]  # {"selector._domainkey.example.com": "v=DKIM1; …"}

MAIL_DKIM = r"""
use strict; use warnings; use Mail::DKIM::Verifier; use Net::DNS;
my %keys; open(my $table, "<", shift @ARGV) or die; while (<$table>) { chomp; my ($name, $text) = split /\t/; $keys{$name} = $text; }
{ no warnings "redefine"; *Mail::DKIM::DNS::query = sub { my ($name, $type) = @_; my $text = $keys{$name};
    return $text ? (Net::DNS::RR->new(name => $name, type => "TXT", txtdata => [unpack("(a250)*", $text)])) : (); }; }
while (my $file = <STDIN>) { chomp $file; my $dkim = Mail::DKIM::Verifier->new(); open(my $in, "<:raw", $file) or die; local $/; $dkim->PRINT(scalar <$in>);
    $dkim->CLOSE; my $n = grep { $_->result eq "pass" } $dkim->signatures; print "$n\n"; }
"""


def by_dkimpy(messages: Sequence[bytes], keys: KEYS) -> list[int]:
    def text_of(name: bytes, timeout: int = 5) -> bytes | None:
        found = keys.get(name.decode().rstrip("."))
        return found.encode() if found else None

    held = []
    for message in messages:
        verifier = dkim.DKIM(message)
        count = sum(1 for name, _ in verifier.headers if name.lower() == b"dkim-signature")
        held.append(sum(_holds(message, index, text_of) for index in range(count)))
    return held


def _holds(message: bytes, index: int, text_of: object) -> bool:
    try:
        return bool(dkim.DKIM(message).verify(idx=index, dnsfunc=text_of))
    except dkim.DKIMException:
        return False


def by_opendkim(messages: Sequence[bytes], keys: KEYS, folder: Path) -> list[int]:
    software = require("opendkim")
    table = folder / "keys"
    table.write_text("".join(f"{name} {text}\n" for name, text in keys.items()))
    config = folder / "opendkim.conf"
    config.write_text(f"Mode v\nTestPublicKeys {table}\nSyslog no\nSocket local:{folder}/socket\n")
    done = subprocess.run(
        [
            str(software.root / "usr/sbin/opendkim"),
            "-x",
            str(config),
            "-vv",
            "-t",
            ",".join(_written(messages, folder)),
        ],
        env={**os.environ, **software.environment()},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    _, *told = done.stdout.split("### INSHEADER: ")  # one for each message
    assert len(told) == len(messages), done.stderr[-1000:]
    return [each.count("dkim=pass") for each in told]


def by_mail_dkim(messages: Sequence[bytes], keys: KEYS, folder: Path) -> list[int]:
    """Debian's version does not support Ed25519 yet."""
    software = require("mail-dkim")
    root = software.root
    table = folder / "keys.tsv"
    table.write_text("".join(f"{name}\t{text}\n" for name, text in keys.items()))
    script = folder / "verify.pl"
    script.write_text(MAIL_DKIM)
    libraries = [root / "usr/share/perl5", *root.glob("usr/lib/*/perl5/*"), root / "usr/lib/perl5"]
    done = subprocess.run(
        ["perl", *[f"-I{path}" for path in libraries], str(script), str(table)],
        input="".join(f"{path}\n" for path in _written(messages, folder)),
        env={**os.environ, **software.environment()},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]


def _written(messages: Sequence[bytes], folder: Path) -> list[str]:
    paths = [folder / f"{number}.eml" for number in range(len(messages))]
    for path, message in zip(paths, messages, strict=True):
        path.write_bytes(message)
    return list(map(str, paths))
