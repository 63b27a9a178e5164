"""`gramhouse status --format openmetrics`: the status as metrics for Prometheus.

Only gauges without timestamps, because node_exporter's textfile collector rejects other features of OpenMetrics.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from prometheus_client.core import CollectorRegistry, Gauge
from prometheus_client.openmetrics.exposition import generate_latest

from flows.cli.output.terminal import without_control_characters

_RUN_COUNTS = ("accounts", "pages", "items", "added", "changed", "removed", "expired", "returned", "quarantined")

# A metric: its name, description, and labels, and rows with their values and that of the metric; None is omitted.
_Metric = tuple[str, str, tuple[str, ...], Iterable[tuple[Any, ...]]]


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _metrics(found: Mapping[str, Any] | None, reasons: Mapping[str, bool]) -> Iterable[_Metric]:
    totals = None if found is None else found["totals"]
    yield "snapshot_readable", "1 if there is a snapshot that can be read.", (), [(int(totals is not None),)]
    if found is None:
        return
    yield "attention", "1 for each reason that requires attention, else 0.", ("reason",), reasons.items()
    # Not a run in progress: its time and counts would be missing until it ends, and if it is killed, for good.
    if run := found["last_ended_run"]:
        counts = ((name, run.get(name)) for name in _RUN_COUNTS)
        ended = [(_seconds(run["ended_at"]),)]
        yield "last_run_ended_timestamp_seconds", "When the last run that ended did so.", (), ended
        yield "last_run_count", "What it landed and changed.", ("what",), counts
    if totals is None:
        return
    ages = ((each["surface"], each["age_seconds"]) for each in found["freshness"])
    stale = ((each["surface"], each["stale"]) for each in found["freshness"])
    # Groups of failures may also differ in what is not a label, such as in a long cooldown.
    scans: Counter[tuple[str, str]] = Counter()
    until: dict[tuple[str, str], datetime | None] = {}
    for each in found["failures"]:
        labels = each["outcome"], each["error_code"]
        scans[labels] += each["scans"]
        until[labels] = max(filter(None, (until.get(labels), each["resume_after"])), default=None)
    numbers = ((*labels, number) for labels, number in scans.items())
    times = ((*labels, _seconds(at)) for labels, at in until.items())
    of_cause, expired = ("outcome", "code"), [(totals["expired"],)]
    yield "accounts_token_expired", "Accounts whose token must be renewed.", (), expired
    yield "stale_after_seconds", "GRAMHOUSE_STALE_AFTER.", (), [(totals["stale_after"],)]
    yield "stale_accounts", "Accounts that should be fresh and are stale.", ("surface",), stale
    yield "oldest_age_seconds", "Age of the oldest that should be fresh.", ("surface",), ages
    yield "incomplete_scans", "Scans that are not complete, by outcome and error code.", of_cause, numbers
    yield "cooldown_until_timestamp_seconds", "When the last cooldown of such scans ends.", of_cause, times


def metrics(found: Mapping[str, Any] | None, reasons: Mapping[str, bool]) -> str:
    """Return the status as an OpenMetrics exposition; None is a status that cannot be read.

    `reasons` are those of `attention`.
    """
    registry = CollectorRegistry()
    for name, what, labels, rows in _metrics(found, reasons):
        known = [row for row in rows if row[-1] is not None]
        if not known:
            continue
        gauge = Gauge(f"gramhouse_{name}", what, labels, registry=registry)
        for *values, number in known:
            # An error code may be any text that the API sent.
            (gauge.labels(*map(without_control_characters, values)) if values else gauge).set(number)
    exposition: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return exposition.decode().rstrip("\n")
