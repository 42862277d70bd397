"""Malicious mails passed to the commands that read them: time and memory are bounded, and the next mail is accepted."""

import re
import smtplib
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import PROCESS_S_MAX, Cli, process_environment
from tests.returns.mails import report
from tests.returns.test_hostile import CPU_S_MAX, hostile

TO = "returns@here.example"
DEAD = "550 5.1.1 User unknown"
MEMORY_KB_MAX = 400_000


# Prints the CPU seconds and the kB that the command used.
MEASURED = """
import resource, sys
from pathlib import Path
from fairpost.cli import main
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(used.ru_utime + used.ru_stime, peak, file=sys.stderr)
"""


def test_explain_reads_a_folder_of_them(bare: Cli, tmp_path: Path) -> None:
    for number, raw in enumerate(hostile().values()):
        (tmp_path / f"{number:02}.eml").write_bytes(raw)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, "explain", "--message", str(tmp_path), "--json"],
        env=process_environment(bare.environment),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("\n") == len(hostile())
    cpu_s, memory_kb = done.stderr.split()[-2:]
    assert float(cpu_s) < CPU_S_MAX * len(hostile())
    assert int(memory_kb) < MEMORY_KB_MAX


def test_the_receiver_takes_them_and_then_the_next_mail(cli: Cli) -> None:
    server = cli.start("receive", "--listen", "127.0.0.1:0", "--also", TO)
    replies = {}
    try:
        assert server.stdout is not None
        ready = re.search(r":(\d+)$", server.stdout.readline().strip())
        assert ready
        for name, raw in {**hostile(), "": report("5.1.1", DEAD)}.items():
            with smtplib.SMTP("127.0.0.1", int(ready[1]), timeout=PROCESS_S_MAX) as client:
                try:
                    client.sendmail("", [TO], raw)
                    replies[name] = 250
                except smtplib.SMTPDataError as error:
                    replies[name] = error.smtp_code
        most = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{server.pid}/status").read_text())
    finally:
        server.kill()
        server.communicate()
    refused = {name: code for name, code in replies.items() if code != 250}
    assert set(refused.values()) <= {500, 552}, refused  # for a line or a mail that is too long
    assert replies[""] == 250
    assert most is not None
    assert int(most[1]) < MEMORY_KB_MAX
    assert "ann@people.example" in {each["address"] for each in cli.json("email", "returned", "--uncertain")}
