"""Formats the metrics for Prometheus. No label contains the name of a sender, an account or a path, because there can
be any number of them.

Counters end in `_total`, and histograms only grow. Values computed over a window are gauges.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeHistogramMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from fairpost import __version__
from fairpost.model.sender import Tier
from fairpost.observe.fairness import FAIR, FIFO, TIERS, Evenness, FairnessReport
from fairpost.observe.figures import Figures, Histograms
from fairpost.observe.http_durations import BOUNDS_S, HttpSeries
from fairpost.policy.conditions import Condition
from fairpost.policy.inequality import BUCKET_ENDS_US, Waits
from fairpost.policy.ledger import Measure

BOUNDS = range(0, 225, 8)  # the exported bounds (out of 301), each twice the previous one, from 1 ms to 22 days

Values = Mapping[tuple[str, ...], float]


def exposition(figures: Figures, *, by_account: bool = False) -> bytes:
    """Returns one database's metrics.

    `by_account` adds a counter per account, for installations with a limited number of accounts.
    """
    return _written(_Collector(figures, by_account=by_account))


def exposition_of_regions(figures: Mapping[str, Figures | None], *, by_account: bool = False) -> bytes:
    """Returns the metrics for all regions, with the label `region`. In `figures`, None stands for a region that does
    not respond.
    """
    return _written(_RegionsCollector(figures, by_account=by_account))


def _written(collector: Collector) -> bytes:
    registry = CollectorRegistry()
    registry.register(_BuildInfo())
    registry.register(collector)
    return generate_latest(registry)


class _RegionsCollector(Collector):
    def __init__(self, figures: Mapping[str, Figures | None], *, by_account: bool) -> None:
        self._figures = figures
        self._by_account = by_account

    def collect(self) -> Iterator[Metric]:
        answers: Values = {(region,): float(figures is not None) for region, figures in self._figures.items()}
        yield _gauge("fairpost_region_up", "1 if the region's database is responding.", ("region",), answers)
        yield _gauge("fairpost_region_answers", "Old name of fairpost_region_up.", ("region",), answers)
        families: dict[str, Metric] = {}
        for region, figures in self._figures.items():
            found = _Collector(figures, by_account=self._by_account).collect() if figures is not None else ()
            for each in found:
                whole = families.setdefault(each.name, Metric(each.name, each.documentation, each.type))
                whole.samples += [
                    sample._replace(labels={"region": region, **sample.labels}) for sample in each.samples
                ]
        yield from families.values()


class _BuildInfo(Collector):
    def collect(self) -> Iterator[Metric]:
        yield _gauge("fairpost_build_info", "Always 1, with the version as a label.", ("version",), {(__version__,): 1})


class _Collector(Collector):
    def __init__(self, figures: Figures, *, by_account: bool) -> None:
        self._figures = figures
        self._by_account = by_account

    def collect(self) -> Iterator[Metric]:
        report = self._figures.report
        yield from _queue(report)
        yield from _conditions(self._figures.conditions)
        yield from _served(report)
        sent: Values = {(kind,): n for kind, n in self._figures.sent.items()}
        yield _counter("fairpost_sent", "E-mails sent.", ("transport",), sent)
        if self._by_account:
            of_accounts: Values = {(account,): n for account, n in report.sent_total.items()}
            yield _counter("fairpost_account_sent", "E-mails sent by the account.", ("account",), of_accounts)
        yield from _grown(self._figures.grown)
        yield from _histograms(report)
        yield from _engines(report)
        yield _http(self._figures.http)


def _conditions(conditions: Iterable[Condition]) -> Iterator[Metric]:
    """Yields the reasons why mail is not being sent. docs/conditions.md lists all of the few dozen codes."""
    times: Counter[tuple[str, ...]] = Counter()
    emails: Counter[tuple[str, ...]] = Counter()
    for each in conditions:
        key = (each.code.partition(".")[0], each.code)
        times[key] += 1
        emails[key] += each.waiting
    labels = ("scope", "code")
    yield _gauge("fairpost_condition", "Number of current occurrences of this condition.", labels, times)
    yield _gauge("fairpost_condition_emails", "E-mails waiting because of this condition.", labels, emails)


def _queue(report: FairnessReport) -> Iterator[Metric]:
    tiers = report.waiting.tiers
    yield _gauge(
        "fairpost_queue_emails",
        "Waiting e-mails, whether due or not.",
        ("tier",),
        {(t,): w.emails for t, w in tiers.items()},
    )
    yield _gauge(
        "fairpost_queue_senders", "Users with e-mails waiting.", ("tier",), {(t,): w.senders for t, w in tiers.items()}
    )
    yield _plain(
        "fairpost_queue_oldest_seconds",
        "Waiting time of the oldest e-mail that is due and not held.",
        report.queue.oldest_wait_s or 0.0,
    )
    yield _plain(
        "fairpost_queue_health",
        "Queue health: 0.1 means falling behind, 2 means spare capacity.",
        report.queue.health,
    )
    yield _plain(
        "fairpost_queue_gini",
        "Gini coefficient of waiting e-mails per user. 0 means an even distribution.",
        report.waiting.users.gini,
    )
    yield _plain(
        "fairpost_queue_largest_share",
        "Largest share of waiting e-mails that belongs to one user.",
        report.waiting.users.largest_share,
    )
    yield _plain("fairpost_senders_throttled", "Senders throttled for abuse.", report.throttling.throttled)
    yield _plain(
        "fairpost_senders_stopped",
        "Senders throttled for abuse whose mail is currently stopped.",
        report.throttling.stopped,
    )
    yield _plain(
        "fairpost_workspaces_urgent_suspect",
        "Workspaces with a user who sent 1,000 or more urgent e-mails in 24 hours (probably bulk mail).",
        sum(each.is_suspect for each in report.urgent),
    )
    yield _plain(
        "fairpost_senders_observed",
        "Senders that would be throttled if abuse detection were on.",
        report.throttling.observed,
    )
    yield _plain(
        "fairpost_names_held", "Workspaces, domains, users and streams that are held manually.", report.throttling.held
    )


_EVENNESS = {
    "gini": "Gini coefficient of served e-mails. 0 means an even distribution.",
    "jain": "Jain's index of served e-mails. 1 means an even distribution.",
    "largest_share": "Largest share of served e-mails.",
}


def _served(report: FairnessReport) -> Iterator[Metric]:
    by_queue = {queue: report.served_by[queue] for queue in report.queues}
    evenness: dict[tuple[str, ...], Evenness] = {}
    for queue, served in by_queue.items():
        evenness["workspaces", queue] = served.workspaces
        evenness["users", queue] = served.users
    of = ("of", "queue")
    yield _plain("fairpost_window_seconds", "Window for served e-mails and histograms.", report.window_s)
    for name, about in _EVENNESS.items():
        yield _gauge(f"fairpost_{name}", about, of, {k: getattr(e, name) for k, e in evenness.items()})
    yield _gauge(
        "fairpost_served_emails",
        "E-mail outcomes in the window.",
        ("outcome", "queue"),
        {
            (outcome, queue): getattr(served, outcome)
            for queue, served in by_queue.items()
            for outcome in ("sent", "bounced", "rejected")
        },
    )
    yield _gauge(
        "fairpost_emails_per_hour",
        "E-mails served in roughly the past hour.",
        ("queue",),
        {(queue,): served.per_hour for queue, served in by_queue.items()},
    )


def _grown(measured: Histograms) -> Iterator[Metric]:
    queues = {Measure.WAIT: FAIR, Measure.WAIT_FIFO: FIFO}
    families = (
        (
            "fairpost_email_wait_seconds",
            "Time from when an e-mail is due until it is started.",
            ("tier", "queue"),
            tuple(queues),
        ),
        ("fairpost_email_send_seconds", "Time the mail server took for an e-mail.", (), (Measure.SEND,)),
        (
            "fairpost_database_operation_seconds",
            "Time the database took to claim e-mails or record an outcome.",
            ("operation",),
            _OPERATIONS,
        ),
    )
    for name, words, labels, kinds in families:
        family = HistogramMetricFamily(name, words, labels=labels)
        for (kind, tier), waits in sorted(measured.items()):
            if kind in kinds:
                key = {2: (TIERS[tier], queues.get(kind, "")), 1: (kind.value,), 0: ()}[len(labels)]
                family.add_metric(key, list(_buckets(waits)), waits.total_us / 1e6)
        yield family


def _histograms(report: FairnessReport) -> Iterator[Metric]:
    measured = report.histograms
    queues = {Measure.WAIT: FAIR, Measure.WAIT_FIFO: FIFO}
    yield _histogram(
        "fairpost_wait_seconds",
        "Time from when an e-mail is due until it is started.",
        ("tier", "queue"),
        (((TIERS[t], queues[k]), waits) for (k, t), waits in measured.items() if k in queues),
    )
    yield _histogram(
        "fairpost_send_seconds",
        "Time the mail server took for an e-mail.",
        (),
        (((), waits) for (kind, _), waits in measured.items() if kind is Measure.SEND),
    )
    yield _histogram(
        "fairpost_database_seconds",
        "Time the database took to claim e-mails or record an outcome.",
        ("operation",),
        (((kind.value,), measured[kind, Tier.NORMAL]) for kind in _OPERATIONS if (kind, Tier.NORMAL) in measured),
    )


_OPERATIONS = (Measure.CLAIM, Measure.COMMIT)


def _engines(report: FairnessReport) -> Iterator[Metric]:
    engine = ("engine",)
    engines = report.engines
    yield _plain("fairpost_engines", "Engines seen in the last minute.", len(engines))
    yield _gauge(
        "fairpost_engine_processes",
        "The engine's processes.",
        engine,
        {(e.id,): e.processes for e in engines if e.processes is not None},
    )
    cpu_s: Values = {(e.id,): e.cpu_s for e in engines if e.cpu_s is not None}
    yield _counter("fairpost_engine_cpu_seconds", "CPU time of the engine's processes.", engine, cpu_s)
    yield _gauge(
        "fairpost_engine_memory_bytes",
        "Resident memory of the engine's processes.",
        engine,
        {(e.id,): e.rss_bytes for e in engines if e.rss_bytes is not None},
    )


def _http(series: Iterable[HttpSeries]) -> Metric:
    family = HistogramMetricFamily(
        "fairpost_http_request_duration_seconds",
        "Duration of HTTP requests.",
        labels=("route", "method", "status"),
    )
    for each in series:
        within = accumulate(each.counts)
        buckets = [(str(bound), float(n)) for bound, n in zip((*BOUNDS_S, "+Inf"), within, strict=True)]
        family.add_metric((each.route, each.method, each.status), buckets, each.total_s)
    return family


def _plain(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value=value)


def _gauge(name: str, words: str, labels: tuple[str, ...], values: Values) -> Metric:
    family = GaugeMetricFamily(name, words, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _counter(name: str, words: str, labels: tuple[str, ...], values: Values) -> Metric:
    family = CounterMetricFamily(name, words, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _histogram(
    name: str, words: str, labels: tuple[str, ...], measured: Iterable[tuple[tuple[str, ...], Waits]]
) -> Metric:
    family = GaugeHistogramMetricFamily(name, words, labels=labels)
    for key, waits in measured:
        family.add_metric(key, list(_buckets(waits)), waits.total_us / 1e6)
    return family


def _buckets(waits: Waits) -> Iterator[tuple[str, float]]:
    """Yields the cumulative count for each bound. The counts are exact, because every bound is the end of a bucket."""
    for bound in BOUNDS:
        within = sum(times for bucket, times in waits.buckets.items() if bucket <= bound)
        yield str(BUCKET_ENDS_US[bound] / 1e6), within
    yield "+Inf", waits.count
