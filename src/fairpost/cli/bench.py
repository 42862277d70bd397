"""`fairpost bench`: measurements on this machine, each with a comparison."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Measure Fairpost's speed on this machine.")

Figures = dict[str, float]
Bench = Callable[[str, Callable[[str], None]], Awaitable[Figures]]

# the description of each figure, with the figure's target if there is one
MEANING: dict[str, str] = {
    "claim_ms_small": "claiming 50 e-mails, 10,000 queued by 100 senders",
    "claim_ms_large": "claiming 50 e-mails, 1,000,000 queued by 10,001 senders (target: 2 × small)",
    "claim_ms_blocked": "claiming 50 e-mails, 99% of 100,000 senders held (target: 2 × large)",
    "claim_ms_after_churn": "claiming 50 e-mails after 500,000 were processed (target: 2 × large)",
    "claim_ms_held_xmin": "the same during a long transaction (target: 3 × large)",
    "hold_ms": "holding a sender with 1,000,000 queued (target: below 20 ms)",
    "metrics_ms": "the query of `fairpost metrics`, 1,000,000 queued by 100,000 users in 1,000 workspaces (target: 200 ms)",
    "report_ms": "the same for 24 hours, as in `fairpost fairness`",
    "metrics_ms_workspaces": "the same as the first, 500,000 queued by 100,000 workspaces",
    "group_by_senders_ms": "for comparison: counting the 1,000,000 e-mails by sender",
    "throttle_ms": "throttling a sender with 1,000,000 queued (target: below 20 ms)",
    "lift_ms": "ending that throttle",
    "claim_ms_free": "claiming 50 e-mails, 100,000 senders, none throttled",
    "claim_ms_throttled": "the same with 99% of them throttled (target: 2 × free)",
    "group_by_ms_small": "for comparison: counting by sender, 10,000 queued",
    "group_by_ms_large": "for comparison: counting by sender, 1,000,000 queued",
    "fifo_ms_large": "for comparison: first come, first served, 1,000,000 queued",
    "single_per_s": "enqueueing in one transaction each, 8 connections (target: 3,000/s)",
    "raw_single_per_s": "for comparison: a bare INSERT of the same JSON",
    "bulk_per_s": "enqueueing 1,000 at a time, 2 connections (target: 30,000/s)",
    "raw_bulk_per_s": "for comparison: a bare INSERT of the same 1,000",
    "scheduled_per_s": "rows and keys for a campaign with 1,000,000 prospects, checked and committed (target: 25,000/s)",
    "scheduled_per_s_3_steps": "the same with three steps for 200,000 prospects",
    "plain_insert_per_s": "for comparison: inserting the same prospects into a table with a unique key",
    "rss_mb": "peak memory of the scheduling process (target: below 200 MB)",
    "emails_per_s": "the whole engine: claim, compose, send, settle, 8 accounts (target: 3 × naive, 0.5 × ceiling)",
    "cpu_us_per_email": "CPU time of all processes per e-mail, in µs: the sum of the next three figures",
    "cpu_us_engine": "of this, the engine",
    "cpu_us_database": "of this, PostgreSQL",
    "cpu_us_sink": "of this, the receiving server",
    **{
        f"signed_{key}": f"with DKIM: {words}"
        for key, words in (
            ("emails_per_s", "the engine at work, each e-mail signed with RSA-2048"),
            ("cpu_us_per_email", "CPU time of all processes per e-mail"),
            ("cpu_us_engine", "of this, the engine"),
            ("cpu_us_database", "of this, PostgreSQL"),
            ("cpu_us_sink", "of this, the receiving server"),
        )
    },
    "naive_emails_per_s": "for comparison: a table, EmailMessage and aiosmtplib, one process with 8 connections",
    "naive_2_processes_per_s": "for comparison: the same in two processes with 4 connections each",
    "ceiling_emails_per_s": "for comparison: the same SQL without composing and sending",
    "times_naive": "speed relative to the simple sender",
    "share_of_ceiling": "speed relative to the database alone",
    "fresh_per_s": "e-mails per second, 8 accounts, all tables freshly analysed",
    "fresh_cpu_us": "database CPU per e-mail",
    **{
        f"{case}_{figure}": f"{what}, {words}"
        for case, words in (
            ("none", "tables never analysed"),
            ("empty", "analysed while all tables were empty"),
            ("emptied", "analysed while 100,000 more were queued"),
            ("loaded", "right after a bulk insert into an idle engine"),
        )
        for figure, what in (
            ("per_s", "e-mails per second"),
            ("cpu_us", "database CPU per e-mail"),
            ("rate", "e-mails per second compared with fresh (target: 0.9)"),
            ("cpu", "database CPU compared with fresh (target: 1.1)"),
        )
    },
    **{
        f"held_{when}{figure}": f"{what}, {words}"
        for when, words in (
            ("before_", "before a long transaction"),
            ("", "after it has been open for `held_s` seconds"),
            ("after_", "right after the transaction"),
        )
        for figure, what in (
            ("per_s", "e-mails per second"),
            ("cpu_us", "database CPU per e-mail"),
        )
    },
    "held_rate": "e-mails per second while the transaction is open, compared with before (target: 0.9)",
    "held_cpu": "database CPU per e-mail while the transaction is open, compared with before (target: 1.1)",
    "held_s": "how long the transaction was open, in seconds",
    "pickup_ms_p50": "from commit to 250, idle engine (target: 15 ms)",
    "pickup_ms_p99": "the same, 99th percentile (target: 60 ms)",
    "pickup_loaded_ms_p50": "from commit to 250 for an urgent e-mail, 1,000,000 bulk e-mails queued, all accounts busy",
    "pickup_loaded_ms_p99": "the same, 99th percentile (target: 300 ms)",
    "listen_ms_p50": "for comparison: from a bare INSERT with NOTIFY to the notification",
    "webhooks_per_s": "webhooks per second to one endpoint: read, signed, posted, logged, committed (target: 2,000/s)",
    "cpu_us_per_webhook": "CPU time of all processes per webhook, in µs",
    "worker_private_mb": "private memory of an idle worker process (target: 15 MB)",
    "packed_account_kb": "memory of one idle account in a process with 1,000 (target: 200 KB)",
    "bare_python_mb": "for comparison: a separate Python process with the same imports",
    "compose_us": "composing an e-mail with text and HTML from scratch (target: 80 µs, a 30th of the standard library)",
    "compose_prepared_us": "the same, with content encoded once for all recipients",
    "signed_us": "encoding and signing an e-mail with DKIM (RSA-2048)",
    "signed_prepared_us": "the same, with content encoded and body hashed once for all recipients",
    "signed_ed25519_us": "encoding and signing with Ed25519",
    "stdlib_us": "for comparison: the same e-mail with the standard library's EmailMessage",
    "compose_10mb_ms": "encoding a 10 MB attachment",
    "message_bytes": "the size of the composed e-mail",
    "render_us": "rendering a campaign e-mail, 1.9 KB of text and 8 KB of HTML with 12 placeholders",
    "format_map_us": "for comparison: the same with str.format_map, which neither escapes nor checks",
    "portal_own_words_us": "a product e-mail customised by its workspace, including the database query (target: 1.2 × portal)",
    "portal_us": "the same for a workspace that uses the default content",
    "select_us": "for comparison: SELECT 1",
    "smtp_per_s_1": "messages to smtp-sink over one connection",
    "smtp_per_s_8": "the same over eight (target: 2.5 × aiosmtplib)",
    "aiosmtplib_per_s_1": "for comparison: aiosmtplib over one connection",
    "aiosmtplib_per_s_8": "for comparison: aiosmtplib over eight",
    "times_aiosmtplib_1": "speed relative to aiosmtplib, one connection",
    "times_aiosmtplib_8": "speed relative to aiosmtplib, eight connections",
    "framework_per_s": "for comparison: the framework alone, which validates an e-mail and returns a constant",
    "database_single_per_s": "for comparison: the database alone, fairpost.enqueue, one commit each, with as many connections",
    "database_bulk_per_s": "for comparison: the database alone, fairpost.enqueue_many, 1,000 at a time, 2 connections",
    "database_enter_per_s": "for comparison: authenticating a key with its rate limit",
    "database_submit_unlimited_per_s": "for comparison: checking and enqueueing an e-mail of a workspace",
    "database_submit_limited_per_s": "for comparison: the same with the user's two limits",
    "database_submit_per_s": "for comparison: only the two statements of such a request, with the key's rate limit and the user's limits",
    "api_single_per_s": "POST /v1/emails, one durable commit each",
    "api_single_ms_p50": "latency of one request",
    "api_single_ms_p99": "the same, 99th percentile",
    "api_bulk_per_s_1000": "e-mails through POST /v1/emails/bulk, 1,000 per request, 2 connections",
    "api_bulk_per_s_10000": "the same, 10,000 per request",
    "api_show_per_s": "GET /v1/emails/{id}",
    "api_show_ms_p50": "latency of one request",
    "api_show_ms_p99": "the same, 99th percentile",
    "api_list_per_s": "GET /v1/emails, 50 per page",
    "api_list_ms_p50": "latency of one request",
    "api_list_ms_p99": "the same, 99th percentile",
    "first_page_bytes": "bytes that a browser loads for its first page, including response headers (target: 300,000)",
    "first_page_ms": "time for these requests, one after the other, until the first data is shown (target: 300 ms)",
    "first_page_requests": "number of requests",
    **{
        f"{topic}_ms_{scope}": f"the topic {topic}, {words}: from the request to the first state"
        for topic in ("now", "accounts", "account", "campaigns", "campaign", "email", "fairness", "inbox")
        for scope, words in (("all", "for the installation"), ("big", "for a workspace with 90% of all e-mails"))
    },
    "commits_per_s_1": "statements per second with one viewer",
    "commits_per_s_many": "the same with 200 viewers, or --watchers (target: the same)",
    "plain_count_ms": "for comparison: a plain count of the queue",
    "page_ms_big_first": "the first page, for a workspace with 90% of all e-mails (target: 20 ms)",
    "page_ms_big_first_p99": "the same, 99th percentile",
    "page_ms_big_middle": "a page in the middle, for a workspace with 90% of all e-mails (target: 20 ms)",
    "page_ms_big_middle_p99": "the same, 99th percentile",
    "page_ms_big_last": "the last page, for a workspace with 90% of all e-mails (target: 20 ms)",
    "page_ms_big_last_p99": "the same, 99th percentile",
    "page_ms_big_sent": "a page of sent e-mails from the middle of the list, for a workspace with 90% of all e-mails (target: 20 ms)",
    "page_ms_big_sent_p99": "the same, 99th percentile",
    "page_ms_big_failed": "the first page of failed e-mails (one in a thousand), for a workspace with 90% of all e-mails (target: 20 ms)",
    "page_ms_big_failed_p99": "the same, 99th percentile",
    "page_ms_big_not_sent": "the first page of failed, bounced or cancelled e-mails, for a workspace with 90% of all e-mails (target: 20 ms)",
    "page_ms_big_not_sent_p99": "the same, 99th percentile",
    "page_ms_big_scheduled": "the first page of e-mails due later, for a workspace with 90% of all e-mails (target: 20 ms)",
    "page_ms_big_scheduled_p99": "the same, 99th percentile",
    "offset_ms_big_middle": "for comparison: the page in the middle with OFFSET",
    "offset_ms_big_last": "for comparison: the last page with OFFSET",
    "index_ms_big": "for comparison: a plain index scan over history, without roles, queue and subjects",
    "page_ms_small_first": "the first page, for a workspace with a thousand e-mails (target: 20 ms)",
    "page_ms_small_first_p99": "the same, 99th percentile",
    "page_ms_small_middle": "a page in the middle, for a workspace with a thousand e-mails (target: 20 ms)",
    "page_ms_small_middle_p99": "the same, 99th percentile",
    "page_ms_small_last": "the last page, for a workspace with a thousand e-mails (target: 20 ms)",
    "page_ms_small_last_p99": "the same, 99th percentile",
    "page_ms_small_sent": "a page of sent e-mails from the middle of the list, for a workspace with a thousand e-mails (target: 20 ms)",
    "page_ms_small_sent_p99": "the same, 99th percentile",
    "page_ms_small_failed": "the first page of failed e-mails (one in a thousand), for a workspace with a thousand e-mails (target: 20 ms)",
    "page_ms_small_failed_p99": "the same, 99th percentile",
    "page_ms_small_not_sent": "the first page of failed, bounced or cancelled e-mails, for a workspace with a thousand e-mails (target: 20 ms)",
    "page_ms_small_not_sent_p99": "the same, 99th percentile",
    "page_ms_small_scheduled": "the first page of e-mails due later, for a workspace with a thousand e-mails (target: 20 ms)",
    "page_ms_small_scheduled_p99": "the same, 99th percentile",
    "offset_ms_small_middle": "for comparison: the page in the middle with OFFSET",
    "offset_ms_small_last": "for comparison: the last page with OFFSET",
    "index_ms_small": "for comparison: a plain index scan over history, without roles, queue and subjects",
}

PLAIN = {
    "claim": "Measure how long it takes to claim 50 e-mails fairly.\n\nTakes several minutes.",
    "enqueue": "Measure how fast e-mails are accepted and committed.",
    "schedule": "Measure how fast a large campaign is scheduled.",
    "pickup": "Measure the time from commit to the server's 250 reply.",
    "webhooks": "Measure how fast webhooks are delivered to one endpoint.",
    "memory": "Measure the memory use of an idle worker.",
    "render": "Measure how fast e-mails are rendered.",
}
"""The benchmarks without options."""

AsJson = Annotated[bool, typer.Option("--json", help="Print the figures as one JSON object.")]


def _add_plain(name: str, about: str) -> None:
    def measure(as_json: AsJson = False) -> None:
        module = import_module(f"fairpost.dev.bench.{name}")
        _run(getattr(module, f"bench_{name}"), as_json)

    app.command(name, help=f"{about}\n\nExample: fairpost bench {name} --json")(measure)


for _name, _about in PLAIN.items():
    _add_plain(_name, _about)


@app.command()
def fairness(as_json: AsJson = False) -> None:
    """Measure how fast metrics are read and senders are throttled.

    Takes several minutes.

    Example: fairpost bench fairness --json
    """
    from functools import partial

    from fairpost.dev.bench.fairness import bench_fairness
    from fairpost.observe.fairness import read_fairness

    _run(partial(bench_fairness, look=read_fairness), as_json)


@app.command()
def send(
    dkim: Annotated[bool, typer.Option("--dkim", help="Also measure with DKIM signatures (RSA-2048).")] = False,
    campaign: Annotated[
        bool, typer.Option("--campaign", help="Send campaigns with quotas and follow-ups instead of single e-mails.")
    ] = False,
    accounts: Annotated[int, typer.Option(min=1, max=1_000, help="Number of sending accounts.")] = 8,
    as_json: AsJson = False,
) -> None:
    """Measure how fast the engine sends and commits.

    \b
    Example: fairpost bench send --dkim --json
    """
    from functools import partial

    from fairpost.dev.bench.send import bench_send

    _run(partial(bench_send, accounts=accounts, is_signed=dkim, is_campaign=campaign), as_json)


@app.command()
def plans(
    seconds: Annotated[float, typer.Option(min=0.1, max=600, help="How long to measure each rate, in seconds.")] = 4,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Number of runs per case. The median is reported.")] = 3,
    emails: Annotated[int, typer.Option(min=1_000, max=1_000_000, help="E-mails to enqueue per measurement.")] = 10_000,
    held: Annotated[
        float, typer.Option(min=1, max=86_400, help="How long to hold a transaction open, in seconds.")
    ] = 60,
    as_json: AsJson = False,
) -> None:
    """Measure sending with and without planner statistics.

    Also measures sending right after a bulk insert and during a long transaction. Prints sending rates and CPU use
    relative to other cases in the same run.

    Example: fairpost bench plans --held 600 --json
    """
    from functools import partial

    from fairpost.cli.progress import progress
    from fairpost.dev.bench.plans import bench_plans
    from fairpost.settings import read_settings
    from fairpost.startup.parts import server_url

    measure = partial(bench_plans, seconds=seconds, rounds=rounds, emails=emails, held_s=held)

    async def run() -> Figures:
        with progress("Sending with correct, missing and wrong statistics", 1_000) as reach:
            return await measure(
                await server_url(read_settings(os.environ)), lambda what, part: reach(int(part * 1_000))
            )

    _print(asyncio.run(run()), as_json)


@app.command()
def compose(as_json: AsJson = False) -> None:
    """Measure how long it takes to compose an e-mail.

    Example: fairpost bench compose --json
    """
    from fairpost.dev.bench.compose import bench_compose

    _report(bench_compose, as_json)


@app.command()
def api(
    seconds: Annotated[float, typer.Option(min=0.1, max=600, help="How long to measure each figure, in seconds.")] = 5,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Number of service processes.")] = 2,
    connections: Annotated[
        int, typer.Option(min=1, max=500, help="Number of concurrent clients. Each sends one request at a time.")
    ] = 16,
    as_json: AsJson = False,
) -> None:
    """Measure how many requests per second the HTTP API answers.

    \b
    Example: fairpost bench api --processes 4 --connections 32
    """
    from functools import partial

    from fairpost.dev.bench.api import bench_api

    _run(partial(bench_api, seconds=seconds, processes=processes, connections=connections), as_json)


@app.command()
def pages(
    emails: Annotated[
        int, typer.Option(min=1000, max=100_000_000, help="Number of e-mails in the history.")
    ] = 1_000_000,
    as_json: AsJson = False,
) -> None:
    """Measure how fast pages of a long history are loaded.

    \b
    Example: fairpost bench pages --emails 10000000
    """
    from functools import partial

    from fairpost.dev.bench.pages import bench_pages
    from fairpost.observe.emails import list_emails

    _run(partial(bench_pages, look=list_emails, emails=emails), as_json)


@app.command()
def dashboard(
    emails: Annotated[
        int, typer.Option(min=1000, max=100_000_000, help="Number of e-mails in the history.")
    ] = 1_000_000,
    watchers: Annotated[int, typer.Option(min=1, max=200, help="Number of people viewing the same page.")] = 200,
    as_json: AsJson = False,
) -> None:
    """Measure page sizes and the cost of live updates.

    \b
    Example: fairpost bench dashboard --emails 100000
    """
    from functools import partial

    from fairpost.dev.bench.dashboard import bench_dashboard

    _run(partial(bench_dashboard, emails=emails, watchers=watchers), as_json)


@app.command()
def smtp(
    server: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Server that discards mail. [default: a local smtp-sink]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare Fairpost's SMTP sending with aiosmtplib.

    Example: fairpost bench smtp --json
    """
    from fairpost.dev.bench.smtp import bench_smtp

    where = _host_and_port(server) if server else None
    _report(lambda progress: asyncio.run(bench_smtp(progress, server=where)), as_json)


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit():
        raise typer.BadParameter(f"--server must be HOST:PORT, got {text}")
    return host, int(port)


def _run(bench: Bench, as_json: bool) -> None:
    _report(lambda progress: asyncio.run(_measure(bench, progress)), as_json)


def _report(measure: Callable[[Callable[[str], None]], Figures], as_json: bool) -> None:
    from rich.console import Console

    with Console(stderr=True).status("getting ready") as status:
        figures = measure(status.update)
    _print(figures, as_json)


def _print(figures: Figures, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({key: round(value, 3) for key, value in figures.items()}))
    else:
        show_figures(figures)


async def _measure(bench: Bench, progress: Callable[[str], None]) -> Figures:
    from fairpost.settings import read_settings
    from fairpost.startup.parts import server_url

    return await bench(await server_url(read_settings(os.environ)), progress)


def show_figures(figures: Figures) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("key", "figure", "meaning")
    for key, value in figures.items():
        table.add_row(key, f"{value:,.0f}" if value >= 1000 else f"{value:,.2f}", MEANING.get(key, ""))
    Console().print(table)
