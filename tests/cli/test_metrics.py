"""`fairpost metrics`, read by Prometheus' own parser: printed once, and scraped over HTTP."""

import json
import os
import re
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psycopg
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from fairpost import __version__
from fairpost.transports.scripted.send import OK
from tests.cli.conftest import PROCESS_S_MAX, Cli, deliver, send

Db = psycopg.Connection[Any]

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()


def families(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(found: dict[str, Metric], name: str, **labels: str) -> float:
    (sample,) = [s for family in found.values() for s in family.samples if s.name == name and s.labels == labels]
    return sample.value


def test_an_empty_installation_has_figures_too(cli: Cli) -> None:
    found = families(cli.ok("metrics"))
    assert value(found, "fairpost_queue_emails", tier="high") == 0
    assert value(found, "fairpost_queue_health") == 1.5
    assert value(found, "fairpost_gini", of="users", queue="fair") == 0
    assert value(found, "fairpost_window_seconds") == 3600
    assert not found["fairpost_wait_seconds"].samples


def test_every_metric_is_on_the_page_and_no_other(cli: Cli) -> None:
    table = PAGE[PAGE.index("| Metric |") : PAGE.index("- `queue` has the value")]
    documented = set(re.findall(r"`(fairpost_\w+)`", table))
    assert documented == set(re.findall(r"^# TYPE (\S+)", cli.ok("metrics"), re.MULTILINE))


def test_sent_emails_are_in_the_figures(cli: Cli, url: str, db: Db) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test", "--provider", "none")
    for user in ("ann", "ann", "bob"):
        send(cli, "--workspace", 'ac"me', "--user", user)
    deliver(url, OK, OK, OK)
    send(cli)
    vitals = json.dumps({"processes": 2, "cpu_s": 1.5, "rss_bytes": 4096})
    db.execute(
        "INSERT INTO fairpost.engines VALUES ('here', clock_timestamp(), false, clock_timestamp(), %s)", (vitals,)
    )
    text = cli.ok("metrics")
    labels = {label for family in families(text).values() for s in family.samples for label in s.labels.values()}
    assert not {"ann", "bob", 'ac"me', "sales"} & labels, "no label names a sender or an account"
    found = families(text)
    assert value(found, "fairpost_queue_emails", tier="normal") == 1
    assert value(found, "fairpost_served_emails", outcome="sent", queue="fair") == 3
    assert value(found, "fairpost_largest_share", of="users", queue="fair") == 2 / 3
    assert value(found, "fairpost_sent_total", transport="other") == 3
    assert found["fairpost_sent"].type == "counter"
    assert value(families(cli.ok("metrics", "--by-account")), "fairpost_account_sent_total", account="sales") == 3
    assert value(found, "fairpost_wait_seconds_bucket", tier="normal", queue="fair", le="+Inf") == 3
    assert value(found, "fairpost_wait_seconds_gcount", tier="normal", queue="fair") == 3
    counts = [s.value for s in found["fairpost_send_seconds"].samples]
    assert counts == sorted(counts), "each bucket includes those before it"
    assert value(found, "fairpost_database_seconds_gcount", operation="claim") > 0
    assert value(found, "fairpost_engine_memory_bytes", engine="here") == 4096
    assert value(found, "fairpost_engine_cpu_seconds_total", engine="here") == 1.5
    assert value(found, "fairpost_email_wait_seconds_count", tier="normal", queue="fair") == 3
    assert value(found, "fairpost_email_send_seconds_bucket", le="+Inf") == 3
    assert value(found, "fairpost_database_operation_seconds_count", operation="claim") > 0
    assert_by_convention(found)


LABELS = {
    "code",
    "engine",
    "le",
    "method",
    "of",
    "operation",
    "outcome",
    "queue",
    "route",
    "scope",
    "status",
    "tier",
    "transport",
    "version",
}


def assert_by_convention(found: dict[str, Metric]) -> None:
    """Checks what promtool checks (names, types and units), and that no label grows with the number of senders."""
    for name, family in found.items():
        assert re.fullmatch("fairpost(_[a-z]+)+", name)
        assert family.documentation
        assert not re.search("_(ms|milliseconds|minutes|kb|mb|percent|total|count|sum|bucket)$", name), name
        assert {label for sample in family.samples for label in sample.labels} <= LABELS
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter"), sample.name
        if family.type == "histogram" and "_gcount" not in str(family.samples):
            _assert_cumulative(family)


def _assert_cumulative(family: Metric) -> None:
    series: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for sample in family.samples:
        key = tuple(sorted((name, each) for name, each in sample.labels.items() if name != "le"))
        series.setdefault(key, {})[sample.labels.get("le", sample.name)] = sample.value
    for buckets in series.values():
        counts = [n for le, n in buckets.items() if not le.startswith("fairpost")]
        assert counts == sorted(counts)
        if f"{family.name}_count" in buckets:
            assert buckets["+Inf"] == buckets[f"{family.name}_count"]


def test_why_mail_is_not_sent_is_a_label_with_its_code(cli: Cli) -> None:
    send(cli)
    found = families(cli.ok("metrics"))
    assert value(found, "fairpost_condition", scope="account", code="account.none") == 1
    assert value(found, "fairpost_condition_emails", scope="account", code="account.none") == 1
    assert_by_convention(found)


def test_the_version_is_in_the_figures(cli: Cli) -> None:
    assert value(families(cli.ok("metrics")), "fairpost_build_info", version=__version__) == 1


def test_prometheus_can_scrape_it_until_it_is_stopped(cli: Cli, db: Db) -> None:
    send(cli)
    server = cli.start("metrics", "--listen", "127.0.0.1:0")
    try:
        assert server.stdout is not None
        ready = server.stdout.readline()
        assert ready.startswith("ready: "), ready
        where = ready.split()[-1]
        with urllib.request.urlopen(where, timeout=150) as answer:
            assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert value(families(answer.read().decode()), "fairpost_queue_emails", tier="normal") == 1
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(where.replace("/metrics", "/"), timeout=150)
        os.kill(server.pid, signal.SIGTERM)
        out, err = server.communicate(timeout=PROCESS_S_MAX)
        assert (server.returncode, out, err) == (0, "", "")
    finally:
        server.kill()
        server.wait()


def test_an_address_in_use_says_what_to_type(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = cli.error("metrics", "--listen", f"127.0.0.1:{port}")
    assert f"127.0.0.1 port {port}" in said
    assert "fairpost metrics --listen" in said


def test_an_address_that_is_none_is_reported_at_once(cli: Cli) -> None:
    assert "127.0.0.1:9464" in cli.error("metrics", "--listen", "9464", code=2)
