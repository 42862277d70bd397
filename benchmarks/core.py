"""Runs the benchmarks, prints their tables and records their figures: `make bench`. To run only some of them:
`make bench ARGS='send enqueue'`.

benchmarks/figures.json contains the latest figures of each benchmark, with commit and date. The table in README.md is generated from
it, and tests/docs/test_figures.py compares the two.
"""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from fairpost.cli.bench import show_figures

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "benchmarks" / "figures.json"
README = ROOT / "README.md"
ALL = (
    "compose",
    "render",
    "smtp",
    "send",
    "pickup",
    "memory",
    "enqueue",
    "schedule",
    "api",
    "pages",
    "dashboard",
    "claim",
    "fairness",
)
BEGIN, END = "<!-- figures: written by make bench -->", "<!-- end of figures -->"

# The rows of the README's table: the text, and the keys of the figures with their format.
ROWS = (
    ("The whole engine, with each outcome committed before the account sends its next e-mail / a simple sender in one process / in two processes", "{emails_per_s:,.0f}/s / {naive_emails_per_s:,.0f}/s / {naive_2_processes_per_s:,.0f}/s"),
    ("CPU per e-mail: engine / PostgreSQL / receiving server", "{cpu_us_engine:,.0f} µs / {cpu_us_database:,.0f} µs / {cpu_us_sink:,.0f} µs"),
    ("From commit to the server's 250, idle engine, median / 99%", "{pickup_ms_p50:.1f} ms / {pickup_ms_p99:.1f} ms"),
    ("The same for urgent mail that arrives behind 1,000,000 e-mails, 99%", "{pickup_loaded_ms_p99:,.0f} ms"),
    ("Enqueue, one transaction each / a bare INSERT", "{single_per_s:,.0f}/s / {raw_single_per_s:,.0f}/s"),
    ("Enqueue in bulk / a bare INSERT", "{bulk_per_s:,.0f}/s / {raw_bulk_per_s:,.0f}/s"),
    ("Composing a 5 KB e-mail / with the standard library", "{compose_us:,.0f} µs / {stdlib_us:,.0f} µs"),
    ("SMTP messages over eight connections / with aiosmtplib", "{smtp_per_s_8:,.0f}/s / {aiosmtplib_per_s_8:,.0f}/s"),
)  # fmt: skip


def measure(name: str) -> dict[str, float]:
    command = [sys.executable, "-m", "fairpost", "bench", name, "--json"]
    figures: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return figures


def commit() -> str:
    run = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10"]
    return subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()


def table(recorded: dict[str, dict[str, object]]) -> str:
    """Returns the table for the README, without rows whose figures were not measured."""
    figures = {key: value for each in recorded.values() for key, value in dict(each["figures"]).items()}  # type: ignore[call-overload]
    rows = []
    for what, form in ROWS:
        try:
            rows.append(f"| {what} | {form.format(**figures)} |")
        except KeyError:
            continue
    measured = sorted({f"{each['date']} ({each['commit']})" for each in recorded.values()})
    return "\n".join(
        ["| | |", "|---|---|", *rows, "", f"Measured with `make bench` on 2 cores: {', '.join(measured)}."]
    )


def written(readme: str, recorded: dict[str, dict[str, object]]) -> str:
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(recorded)}\n{END}{after}"


def recorded_figures() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    return found


def main(names: list[str]) -> None:
    measured = commit()  # before the figures of the first benchmark are written
    for name in names:
        print(f"{name} …", flush=True)
        figures = measure(name)
        show_figures(figures)
        machine = {"cores": os.cpu_count(), "load": round(os.getloadavg()[2], 1)}
        day = datetime.now(UTC).date().isoformat()
        all_figures = recorded_figures() | {name: {"commit": measured, "date": day, **machine, "figures": figures}}
        FIGURES.write_text(json.dumps(all_figures, indent=1) + "\n")
    README.write_text(written(README.read_text(), recorded_figures()))


if __name__ == "__main__":
    main(sys.argv[1:] or list(ALL))
