"""`fairpost bench`: figures on this machine, each beside something to compare it with."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Measure the speed of this machine.")

Figures = dict[str, float]
Bench = Callable[[str, Callable[[str], None]], Awaitable[Figures]]

# key: (what it is, what it is compared with and the most it may be of it, or the least it should reach)
MEANING: dict[str, str] = {
    "claim_ms_small": "claim of 50, 10,000 e-mails waiting, 100 senders",
    "claim_ms_large": "claim of 50, 1,000,000 waiting, 10,001 senders (to reach: 2 × small)",
    "claim_ms_blocked": "claim of 50, 99 % of 100,000 senders held (to reach: 2 × large)",
    "claim_ms_after_churn": "claim of 50, after 500,000 have passed (to reach: 2 × large)",
    "claim_ms_held_xmin": "the same, under a transaction held open (to reach: 3 × large)",
    "hold_ms": "holding a sender with 1,000,000 waiting (to reach: below 20 ms)",
    "metrics_ms": "what `fairpost metrics` reads, 1,000,000 waiting of 100,000 users in 1,000 workspaces (to reach: 200 ms)",
    "report_ms": "the same of 24 hours, as `fairpost fairness` reads it",
    "metrics_ms_workspaces": "the same as the first, 500,000 waiting of 100,000 workspaces",
    "group_by_senders_ms": "for comparison: counting those 1,000,000 by sender",
    "throttle_ms": "throttling a sender with 1,000,000 waiting (to reach: below 20 ms)",
    "lift_ms": "ending that throttle",
    "claim_ms_free": "claim of 50, 100,000 senders, none throttled",
    "claim_ms_throttled": "the same, 99 % of them throttled (to reach: 2 × free)",
    "group_by_ms_small": "for comparison: counting by sender, 10,000 waiting",
    "group_by_ms_large": "for comparison: counting by sender, 1,000,000 waiting",
    "fifo_ms_large": "for comparison: first come, first served, 1,000,000 waiting",
    "single_per_s": "enqueue, a transaction each, 8 connections (to reach: 3,000/s)",
    "raw_single_per_s": "for comparison: a bare INSERT of the same JSON",
    "bulk_per_s": "enqueue 1,000 at a time, 2 connections (to reach: 30,000/s)",
    "raw_bulk_per_s": "for comparison: a bare INSERT of the same 1,000",
    "scheduled_per_s": "rows and keys of a campaign of 1,000,000 prospects, checked and committed (to reach: 25,000/s)",
    "scheduled_per_s_3_steps": "the same with three steps, of 200,000 prospects",
    "plain_insert_per_s": "for comparison: the same people into a table with a unique key, and nothing else",
    "rss_mb": "the most memory that the scheduling process had (to reach: below 200 MB)",
    "emails_per_s": "the engine at work: claimed, composed, sent, settled, 8 accounts (to reach: 3 × naive, 0.5 × ceiling)",
    "naive_emails_per_s": "for comparison: a table, EmailMessage and aiosmtplib, one process with 8 connections",
    "naive_2_processes_per_s": "for comparison: the same in two processes with 4 connections each",
    "ceiling_emails_per_s": "for comparison: the same SQL without composing and sending",
    "times_naive": "how many times as fast as the plain way",
    "share_of_ceiling": "of what the database alone allows",
    "fresh_per_s": "e-mails a second, 8 accounts, all tables analysed right before",
    "fresh_cpu_us": "what the database's processes use for one of them",
    **{
        f"{case}_{figure}": f"{what}, {words}"
        for case, words in (
            ("none", "nothing was ever analysed"),
            ("empty", "analysed while everything was empty"),
            ("emptied", "analysed while 100,000 more were queued"),
            ("loaded", "right after a bulk arrived at an idle engine"),
        )
        for figure, what in (
            ("per_s", "e-mails a second"),
            ("cpu_us", "what the database's processes use for one of them"),
            ("rate", "e-mails a second compared with fresh (to reach: 0.9)"),
            ("cpu", "the database's CPU compared with fresh (to reach: 1.1)"),
        )
    },
    **{
        f"held_{when}{figure}": f"{what}, {words}"
        for when, words in (
            ("before_", "before a transaction is held open"),
            ("", "when it has been open for `held_s`"),
            ("after_", "right after it"),
        )
        for figure, what in (
            ("per_s", "e-mails a second"),
            ("cpu_us", "what the database's processes use for an e-mail"),
        )
    },
    "held_rate": "e-mails a second while it is open, compared with before (to reach: 0.9)",
    "held_cpu": "the database's CPU for an e-mail while it is open, compared with before (to reach: 1.1)",
    "held_s": "for how many seconds it was open",
    "pickup_ms_p50": "commit to 250, an idle engine (to reach: 15 ms)",
    "pickup_ms_p99": "the same, the slowest of a hundred (to reach: 60 ms)",
    "pickup_loaded_ms_p50": "commit to 250 of an urgent e-mail, 1,000,000 bulk waiting, all accounts busy",
    "pickup_loaded_ms_p99": "the same, the slowest of a hundred (to reach: 300 ms)",
    "listen_ms_p50": "for comparison: a bare INSERT with NOTIFY, until it is heard",
    "worker_private_mb": "what an idle worker process has for itself (to reach: 15 MB)",
    "packed_account_kb": "what one idle account costs in a process with 1,000 (to reach: 200 KB)",
    "bare_python_mb": "for comparison: a Python process of its own that has imported the same",
    "compose_us": "an e-mail with text and html as bytes, all encoded anew (to reach: 80 µs, a 30th of the standard library)",
    "compose_prepared_us": "the same, its content encoded once for all recipients",
    "stdlib_us": "for comparison: the same e-mail by the standard library's EmailMessage",
    "compose_10mb_ms": "encoding an attachment of 10 MB",
    "message_bytes": "the size of that e-mail",
    "render_us": "an e-mail of a campaign filled in, 1.9 KB of text and 8 KB of html with 12 places",
    "format_map_us": "for comparison: the same by str.format_map, which escapes and checks nothing",
    "portal_own_words_us": "one of the product's own in a workspace's words, with the look at the database (to reach: 1.2 × portal)",
    "portal_us": "the same in the words of the files, for a workspace that has none",
    "select_us": "for comparison: SELECT 1",
    "smtp_per_s_1": "messages to smtp-sink over one connection",
    "smtp_per_s_8": "the same over eight (to reach: 2.5 × aiosmtplib)",
    "aiosmtplib_per_s_1": "for comparison: aiosmtplib over one connection",
    "aiosmtplib_per_s_8": "for comparison: aiosmtplib over eight",
    "times_aiosmtplib_1": "how many times as fast, over one connection",
    "times_aiosmtplib_8": "how many times as fast, over eight",
    "framework_per_s": "for comparison: the framework alone, which checks an e-mail's shape and answers a constant",
    "database_single_per_s": "for comparison: the database alone, fairpost.enqueue, a commit each, by as many connections",
    "database_bulk_per_s": "for comparison: the database alone, fairpost.enqueue_many, 1,000 at a time, 2 connections",
    "database_enter_per_s": "for comparison: letting a key in, with its rate, alone",
    "database_submit_unlimited_per_s": "for comparison: checking and enqueueing an e-mail of a workspace alone",
    "database_submit_limited_per_s": "for comparison: the same with the user's two limits",
    "database_submit_per_s": "for comparison: the two statements of such a request alone, with the key's rate and the user's limits",
    "api_single_per_s": "POST /v1/emails, a durable commit each",
    "api_single_ms_p50": "how long one of them takes",
    "api_single_ms_p99": "the same, the slowest of a hundred",
    "api_bulk_per_s_1000": "e-mails by POST /v1/emails/bulk, 1,000 a request, 2 connections",
    "api_bulk_per_s_10000": "the same, 10,000 a request",
    "api_show_per_s": "GET /v1/emails/{id}",
    "api_show_ms_p50": "how long one of them takes",
    "api_show_ms_p99": "the same, the slowest of a hundred",
    "api_list_per_s": "GET /v1/emails, 50 on a page",
    "api_list_ms_p50": "how long one of them takes",
    "api_list_ms_p99": "the same, the slowest of a hundred",
    "first_page_bytes": "all that a browser loads for its first page, with the heads of answers (to reach: 300,000)",
    "first_page_ms": "the time that takes, one request after the other, until the first state is there (to reach: 300 ms)",
    "first_page_requests": "so many requests",
    **{
        f"{topic}_ms_{scope}": f"the topic {topic}, {words}: from the request to the first state"
        for topic in ("now", "accounts", "account", "campaigns", "campaign", "email", "fairness", "inbox")
        for scope, words in (("all", "of the installation"), ("big", "of a workspace with nine of ten e-mails"))
    },
    "commits_per_s_1": "statements a second, while one watches",
    "commits_per_s_many": "the same, while 200 watch, or --watchers (to reach: the same)",
    "plain_count_ms": "a plain count of what waits, for comparison",
    "page_ms_big_first": "the first page, of a workspace with nine of ten e-mails (to reach: 20 ms)",
    "page_ms_big_first_p99": "the same, the slowest of a hundred",
    "page_ms_big_middle": "a page in the middle, of a workspace with nine of ten e-mails (to reach: 20 ms)",
    "page_ms_big_middle_p99": "the same, the slowest of a hundred",
    "page_ms_big_last": "the last page, of a workspace with nine of ten e-mails (to reach: 20 ms)",
    "page_ms_big_last_p99": "the same, the slowest of a hundred",
    "page_ms_big_sent": "a page of what was sent, from the middle on, of a workspace with nine of ten e-mails (to reach: 20 ms)",
    "page_ms_big_sent_p99": "the same, the slowest of a hundred",
    "page_ms_big_failed": "the first of what failed, one of a thousand, of a workspace with nine of ten e-mails (to reach: 20 ms)",
    "page_ms_big_failed_p99": "the same, the slowest of a hundred",
    "page_ms_big_not_sent": "the first of what failed, bounced or was cancelled, of a workspace with nine of ten e-mails (to reach: 20 ms)",
    "page_ms_big_not_sent_p99": "the same, the slowest of a hundred",
    "page_ms_big_scheduled": "the first of what is due later, of a workspace with nine of ten e-mails (to reach: 20 ms)",
    "page_ms_big_scheduled_p99": "the same, the slowest of a hundred",
    "offset_ms_big_middle": "for comparison: the page in the middle by OFFSET",
    "offset_ms_big_last": "for comparison: the last page by OFFSET",
    "index_ms_big": "for comparison: a bare walk of the index over history, without roles, queue and subjects",
    "page_ms_small_first": "the first page, of a workspace with a thousand e-mails (to reach: 20 ms)",
    "page_ms_small_first_p99": "the same, the slowest of a hundred",
    "page_ms_small_middle": "a page in the middle, of a workspace with a thousand e-mails (to reach: 20 ms)",
    "page_ms_small_middle_p99": "the same, the slowest of a hundred",
    "page_ms_small_last": "the last page, of a workspace with a thousand e-mails (to reach: 20 ms)",
    "page_ms_small_last_p99": "the same, the slowest of a hundred",
    "page_ms_small_sent": "a page of what was sent, from the middle on, of a workspace with a thousand e-mails (to reach: 20 ms)",
    "page_ms_small_sent_p99": "the same, the slowest of a hundred",
    "page_ms_small_failed": "the first of what failed, one of a thousand, of a workspace with a thousand e-mails (to reach: 20 ms)",
    "page_ms_small_failed_p99": "the same, the slowest of a hundred",
    "page_ms_small_not_sent": "the first of what failed, bounced or was cancelled, of a workspace with a thousand e-mails (to reach: 20 ms)",
    "page_ms_small_not_sent_p99": "the same, the slowest of a hundred",
    "page_ms_small_scheduled": "the first of what is due later, of a workspace with a thousand e-mails (to reach: 20 ms)",
    "page_ms_small_scheduled_p99": "the same, the slowest of a hundred",
    "offset_ms_small_middle": "for comparison: the page in the middle by OFFSET",
    "offset_ms_small_last": "for comparison: the last page by OFFSET",
    "index_ms_small": "for comparison: a bare walk of the index over history, without roles, queue and subjects",
}

AsJson = Annotated[bool, typer.Option("--json", help="Print the figures as one JSON object.")]


@app.command()
def claim(as_json: AsJson = False) -> None:
    """How long a fair claim of 50 e-mails takes. Takes some minutes.

    Example: fairpost bench claim --json
    """
    from fairpost.dev.bench.claim import bench_claim

    _run(bench_claim, as_json)


@app.command()
def fairness(as_json: AsJson = False) -> None:
    """How long it takes to see who waits, and to throttle one. Takes some minutes.

    Example: fairpost bench fairness --json
    """
    from functools import partial

    from fairpost.dev.bench.fairness import bench_fairness
    from fairpost.observe.fairness import read_fairness

    _run(partial(bench_fairness, look=read_fairness), as_json)


@app.command()
def enqueue(as_json: AsJson = False) -> None:
    """How many e-mails a second are accepted, committed durably.

    Example: fairpost bench enqueue
    """
    from fairpost.dev.bench.enqueue import bench_enqueue

    _run(bench_enqueue, as_json)


@app.command()
def schedule(as_json: AsJson = False) -> None:
    """How many e-mails of a campaign are scheduled a second, of a million prospects.

    Example: fairpost bench schedule --json
    """
    from fairpost.dev.bench.schedule import bench_schedule

    _run(bench_schedule, as_json)


@app.command()
def send(as_json: AsJson = False) -> None:
    """How many e-mails a second the engine sends, each committed durably.

    Example: fairpost bench send --json
    """
    from fairpost.dev.bench.send import bench_send

    _run(bench_send, as_json)


@app.command()
def plans(
    seconds: Annotated[float, typer.Option(min=0.1, max=600, help="How long each rate is measured.")] = 4,
    rounds: Annotated[
        int, typer.Option(min=1, max=100, help="How often each case is measured; the median counts.")
    ] = 3,
    emails: Annotated[
        int, typer.Option(min=1_000, max=1_000_000, help="How many are enqueued for each measurement.")
    ] = 10_000,
    held: Annotated[float, typer.Option(min=1, max=86_400, help="Seconds for which a transaction is held open.")] = 60,
    as_json: AsJson = False,
) -> None:
    """Sending with right, wrong and no statistics.

    Also right after a bulk, and under a transaction held open. Prints rates and CPU as ratios within the run.

    Example: fairpost bench plans --held 600 --json
    """
    from functools import partial

    from fairpost.cli.progress import progress
    from fairpost.dev.bench.plans import bench_plans
    from fairpost.settings import read_settings
    from fairpost.startup.parts import server_url

    measure = partial(bench_plans, seconds=seconds, rounds=rounds, emails=emails, held_s=held)

    async def run() -> Figures:
        with progress("Sending with right, missing and wrong statistics", 1_000) as reach:
            return await measure(
                await server_url(read_settings(os.environ)), lambda what, part: reach(int(part * 1_000))
            )

    _print(asyncio.run(run()), as_json)


@app.command()
def pickup(as_json: AsJson = False) -> None:
    """How long an e-mail is on its way, from commit to the server's 250.

    Example: fairpost bench pickup --json
    """
    from fairpost.dev.bench.pickup import bench_pickup

    _run(bench_pickup, as_json)


@app.command()
def memory(as_json: AsJson = False) -> None:
    """What an idle worker costs in memory.

    Example: fairpost bench memory --json
    """
    from fairpost.dev.bench.memory import bench_memory

    _run(bench_memory, as_json)


@app.command()
def compose(as_json: AsJson = False) -> None:
    """How long it takes to make the bytes of an e-mail.

    Example: fairpost bench compose --json
    """
    from fairpost.dev.bench.compose import bench_compose

    _report(bench_compose, as_json)


@app.command()
def render(as_json: AsJson = False) -> None:
    """How long it takes to fill in an e-mail, a campaign's and the product's own.

    Example: fairpost bench render
    """
    from fairpost.dev.bench.render import bench_render

    _run(bench_render, as_json)


@app.command()
def api(
    seconds: Annotated[float, typer.Option(min=0.1, max=600, help="How long each figure is measured.")] = 5,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Of the service.")] = 2,
    connections: Annotated[int, typer.Option(min=1, max=500, help="Of the clients, each asking one by one.")] = 16,
    as_json: AsJson = False,
) -> None:
    """Measure how many requests a second the HTTP API answers.

    \b
    Example: fairpost bench api --processes 4 --connections 32
    """
    from functools import partial

    from fairpost.dev.bench.api import bench_api

    _run(partial(bench_api, seconds=seconds, processes=processes, connections=connections), as_json)


@app.command()
def pages(
    emails: Annotated[int, typer.Option(min=1000, max=100_000_000, help="How many are in history.")] = 1_000_000,
    as_json: AsJson = False,
) -> None:
    """How long a page of e-mails takes to find, wherever it lies in a long history.

    \b
    Example: fairpost bench pages --emails 10000000
    """
    from functools import partial

    from fairpost.dev.bench.pages import bench_pages
    from fairpost.observe.emails import list_emails

    _run(partial(bench_pages, look=list_emails, emails=emails), as_json)


@app.command()
def dashboard(
    emails: Annotated[int, typer.Option(min=1000, max=100_000_000, help="How many are in history.")] = 1_000_000,
    watchers: Annotated[int, typer.Option(min=1, max=200, help="How many watch the same page.")] = 200,
    as_json: AsJson = False,
) -> None:
    """Measure how heavy the pages are, and what watching them costs.

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
        typer.Option(metavar="HOST:PORT", help="A server that throws mail away. [default: smtp-sink, started here]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """How many messages a second go to an SMTP server, compared with aiosmtplib.

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
        _show(figures)


async def _measure(bench: Bench, progress: Callable[[str], None]) -> Figures:
    from fairpost.settings import read_settings
    from fairpost.startup.parts import server_url

    return await bench(await server_url(read_settings(os.environ)), progress)


def _show(figures: Figures) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("key", "figure", "what it is")
    for key, value in figures.items():
        table.add_row(key, f"{value:,.0f}" if value >= 1000 else f"{value:,.2f}", MEANING[key])
    Console().print(table)
