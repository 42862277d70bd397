"""Filters that receivers run behind their SMTP server, as milters: opendkim, opendmarc and rspamd. Each resolves names
only with the given DNS server, so nothing leaves this machine."""

import json
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.peers.fetch import require
from tests.peers.process import HOST, free_port, running
from tests.peers.room import HOSTNAME, room_for

ELSEWHERE = "192.0.2.255"  # in place of 127.0.0.1, whose mail these daemons treat as their own

AT_ONCE_S = 0.1  # none of them stores anything, and some take seconds to end
SUFFIXES = ("com", "org", "net", "test", "example")  # compiling all suffixes takes rspamd ten seconds

OPENDKIM = """
Mode v
Socket inet:{port}@{host}
AuthservID {name}
InternalHosts {folder}/hosts
AlwaysAddARHeader yes
Nameservers {dns}
ResolverConfiguration {folder}/unbound.conf
Background no
Syslog no
"""
OPENDMARC = """
Socket inet:{port}@{host}
AuthservID {name}
TrustedAuthservIDs {name}
SPFIgnoreResults true
SPFSelfValidate true
IgnoreHosts /etc/opendmarc/hosts
Background false
Syslog false
"""
RSPAMD = {
    "options.inc": 'dns {{ nameserver = ["{dns}:53"]; }} disable_hyperscan = true; tempdir = "{folder}"; url_tld = "{folder}/suffixes";',
    "logging.inc": 'type = "console"; level = "warning";',
    "worker-normal.inc": 'bind_socket = "{host}:{http_port}"; count = 1;',
    "worker-proxy.inc": 'bind_socket = "{host}:{port}"; count = 1; milter = yes; upstream "local" {{ default = yes; self_scan = yes; }}',
    "worker-controller.inc": "enabled = false;",
    "milter_headers.conf": 'use = ["x-spamd-result"]; skip_local = false; skip_authenticated = false;',
    "fuzzy_check.conf": "enabled = false;",
    "phishing.conf": "openphish_enabled = false; phishtank_enabled = false;",
}


@dataclass(frozen=True)
class Rspamd:
    port: int
    http_port: int

    def symbols(self, message: bytes, *, ip: str, helo: str, sender: str, recipient: str) -> Mapping[str, float]:
        """Returns the score of each rule that matches."""
        about = {"IP": ip, "Helo": helo, "From": sender, "Rcpt": recipient, "Hostname": helo}
        request = urllib.request.Request(f"http://{HOST}:{self.http_port}/checkv2", data=message, headers=about)
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.load(answer)
        return {name: each["score"] for name, each in found["symbols"].items()}


@contextmanager
def opendkim(dns: str) -> Iterator[int]:
    """Yields the port of the milter."""
    software, port = require("opendkim"), free_port()
    with _folder() as folder:
        (folder / "hosts").write_text(f"{ELSEWHERE}\n")
        (folder / "unbound.conf").write_text("server:\n  do-not-query-localhost: no\n  module-config: iterator\n")
        config = folder / "opendkim.conf"
        config.write_text(OPENDKIM.format(port=port, host=HOST, name=HOSTNAME, folder=folder, dns=dns))
        with running(
            [str(software.root / "usr/sbin/opendkim"), "-f", "-x", str(config)],
            name="opendkim",
            ports=[port],
            log=folder / "log",
            environment=software.environment(),
            cwd=folder,
            stop_s_max=AT_ONCE_S,
        ):
            yield port


@contextmanager
def opendmarc(dns: str) -> Iterator[int]:
    """Yields the port of the milter. It only uses the DNS server in resolv.conf, so it has its own /etc."""
    software, port = require("opendmarc"), free_port()
    with room_for(software) as room:
        room.resolve_by(dns)
        room.write("/etc/opendmarc/hosts", f"{ELSEWHERE}\n")
        room.write("/etc/opendmarc.conf", OPENDMARC.format(port=port, host=HOST, name=HOSTNAME))
        command = [room.software("usr/sbin/opendmarc"), "-f", "-c", "/etc/opendmarc.conf"]
        with room.running(command, ports=[port], stop_s_max=AT_ONCE_S):
            yield port


@contextmanager
def rspamd(dns: str) -> Iterator[Rspamd]:
    software = require("rspamd")
    found = Rspamd(free_port(), free_port())
    with _folder() as folder:
        (folder / "local.d").mkdir()
        (folder / "suffixes").write_text("".join(f"{each}\n" for each in SUFFIXES))
        for name, text in RSPAMD.items():
            shown = text.format(dns=dns, folder=folder, host=HOST, port=found.port, http_port=found.http_port)
            (folder / "local.d" / name).write_text(shown)
        root = software.root
        places = {
            "CONFDIR": root / "etc/rspamd",
            "LOCAL_CONFDIR": folder,
            "SHAREDIR": root / "usr/share/rspamd",
            "RULESDIR": root / "usr/share/rspamd/rules",
            "PLUGINSDIR": root / "usr/share/rspamd/plugins",
            "LUALIBDIR": root / "usr/share/rspamd/lualib",
            "WWWDIR": root / "usr/share/rspamd/www",
            **dict.fromkeys(("DBDIR", "RUNDIR", "LOGDIR"), folder),
        }
        with running(
            [
                *(str(root / "usr/bin/rspamd"), "-f", "-i", "-c", str(root / "etc/rspamd/rspamd.conf")),
                *(f"--var={name}={path}" for name, path in places.items()),
            ],
            name="rspamd",
            ports=[found.port, found.http_port],
            log=folder / "log",
            environment=software.environment(),
            cwd=folder,
            stop_s_max=AT_ONCE_S,
        ):
            yield found


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fp-peer-") as home:
        yield Path(home)
