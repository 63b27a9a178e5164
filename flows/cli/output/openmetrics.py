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
_Rows = Iterable[tuple[Any, ...]]
_Metric = tuple[str, str, tuple[str, ...], _Rows]


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _causes(failures: Iterable[Mapping[str, Any]]) -> tuple[_Rows, _Rows]:
    """Return the scans and the last cooldown of each cause: its failures may differ in what is not a label."""
    scans: Counter[tuple[str, str]] = Counter()
    until: dict[tuple[str, str], datetime] = {}
    for each in failures:
        cause, at = (each["outcome"], each["error_code"]), each["resume_after"]
        scans[cause] += each["scans"]
        if at is not None:
            until[cause] = max(at, until.get(cause, at))
    return ((*cause, number) for cause, number in scans.items()), (
        (*cause, _seconds(at)) for cause, at in until.items()
    )


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
    ages, stale = ([(each["surface"], each[name]) for each in found["freshness"]] for name in ("age_seconds", "stale"))
    of_cause, (scans, until) = ("outcome", "code"), _causes(found["failures"])
    yield "accounts_token_expired", "Accounts whose token must be renewed.", (), [(totals["expired"],)]
    yield "stale_after_seconds", "GRAMHOUSE_STALE_AFTER.", (), [(totals["stale_after"],)]
    yield "stale_accounts", "Accounts that should be fresh and are stale.", ("surface",), stale
    yield "oldest_age_seconds", "Age of the oldest that should be fresh.", ("surface",), ages
    yield "incomplete_scans", "Scans that are not complete, by outcome and error code.", of_cause, scans
    yield "cooldown_until_timestamp_seconds", "When the last cooldown of such scans ends.", of_cause, until


def metrics(found: Mapping[str, Any] | None, reasons: Mapping[str, bool]) -> str:
    """Return the status as an OpenMetrics exposition; None is a status that cannot be read.

    `reasons` are those of `attention`.
    """
    registry = CollectorRegistry()
    for name, what, labels, rows in _metrics(found, reasons):
        if known := [row for row in rows if row[-1] is not None]:
            gauge = Gauge(f"gramhouse_{name}", what, labels, registry=registry)
            for *values, number in known:
                # An error code may be any text that the API sent.
                (gauge.labels(*map(without_control_characters, values)) if values else gauge).set(number)
    exposition: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return exposition.decode().rstrip("\n")
