"""`gramhouse status --format openmetrics`: the status as metrics for Prometheus.

Only gauges without timestamps, because node_exporter's textfile collector rejects other features of OpenMetrics.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from prometheus_client.core import CollectorRegistry, GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from flows.cli.output.terminal import without_control_characters
from models.feeds import SURFACES
from models.runs import RunState

# Labels and a value; samples with None are omitted.
_Sample = tuple[Mapping[str, str], float | None]

_RUN_COUNTS = ("accounts", "pages", "items", "added", "changed", "removed", "expired", "returned", "quarantined")


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _gauge(name: str, what: str, samples: float | Iterable[_Sample] | None) -> Iterator[GaugeMetricFamily]:
    """Yield a gauge with these samples, or with one value; nothing without a value."""
    gauge = GaugeMetricFamily(f"gramhouse_{name}", what)
    for labels, value in [({}, samples)] if samples is None or isinstance(samples, int | float) else samples:
        if value is not None:
            # An error code may be any text that the API sent.
            plain = {label: without_control_characters(text) for label, text in labels.items()}
            gauge.add_sample(gauge.name, plain, value)
    if gauge.samples:
        yield gauge


def _last_run(run: Mapping[str, Any]) -> Iterator[GaugeMetricFamily]:
    began, ended = _seconds(run["started_at"]), _seconds(run["ended_at"])
    states = (({"state": state.value}, int(run["state"] == state.value)) for state in RunState)
    counts = (({"what": name}, run.get(name)) for name in _RUN_COUNTS)
    took = ended - began if began is not None and ended is not None else None
    yield from _gauge("last_run_state", "1 for the state of the last sync or backfill, else 0.", states)
    yield from _gauge("last_run_started_timestamp_seconds", "When the last run began.", began)
    yield from _gauge("last_run_ended_timestamp_seconds", "When the last run ended.", ended)
    yield from _gauge("last_run_duration_seconds", "How long the last run took.", took)
    yield from _gauge("last_run_count", "What the last run landed and changed.", counts)


def _snapshot(found: Mapping[str, Any]) -> Iterator[GaugeMetricFamily]:
    totals = found["totals"]

    def by_surface(column: str) -> Iterator[_Sample]:
        return (({"surface": each["surface"]}, each[column]) for each in found["freshness"])

    items = (({"surface": surface}, totals[surface]) for surface in sorted(SURFACES))
    failures = [({"outcome": each["outcome"], "code": each["error_code"]}, each) for each in found["failures"]]
    scans = ((labels, each["scans"]) for labels, each in failures)
    waits = ((labels, _seconds(each["resume_after"])) for labels, each in failures)
    published = _seconds(totals["published_at"])
    yield from _gauge("snapshot_published_timestamp_seconds", "When the snapshot was published.", published)
    yield from _gauge("accounts", "Accounts that the catalogue lists.", totals["accounts"])
    yield from _gauge("accounts_token_expired", "Accounts whose token must be renewed.", totals["expired"])
    yield from _gauge("media_items", "Media items that are present.", items)
    yield from _gauge("quarantined_records", "Records in quarantine.", totals["quarantined"])
    yield from _gauge("stale_after_seconds", "GRAMHOUSE_STALE_AFTER.", totals["stale_after"])
    yield from _gauge("fresh_expected_accounts", "Accounts that should be fresh.", by_surface("accounts"))
    yield from _gauge("stale_accounts", "Those of them that are stale.", by_surface("stale"))
    yield from _gauge("never_complete_accounts", "Those without a complete scan.", by_surface("never"))
    yield from _gauge("oldest_age_seconds", "Age of the oldest that should be fresh.", by_surface("age_seconds"))
    yield from _gauge("incomplete_scans", "Scans that are not complete, by outcome and error code.", scans)
    yield from _gauge("cooldown_until_timestamp_seconds", "When the last cooldown of such scans ends.", waits)


class _Status(Collector):
    """The gauges of a status and the reasons for attention; only that it cannot be read if it is None."""

    def __init__(self, found: Mapping[str, Any] | None, reasons: Mapping[str, bool], *, writing: bool) -> None:
        self._found = found
        self._reasons = reasons
        self._writing = writing

    def collect(self) -> Iterator[GaugeMetricFamily]:
        found = self._found
        readable = found is not None and found["totals"] is not None
        yield from _gauge("snapshot_readable", "1 if there is a snapshot that can be read.", int(readable))
        if found is None:
            return
        why = (({"reason": reason}, int(holds)) for reason, holds in self._reasons.items())
        unresolved = "Failed or interrupted runs that no later run has replaced."
        yield from _gauge("attention", "1 for each reason that requires attention, else 0.", why)
        yield from _gauge("writer_active", "1 while a process writes the warehouse.", int(self._writing))
        yield from _gauge("unresolved_runs", unresolved, len(found["unresolved"]))
        if found["last_run"]:
            yield from _last_run(found["last_run"])
        if readable:
            yield from _snapshot(found)


def metrics(found: Mapping[str, Any] | None, reasons: Mapping[str, bool], *, writing: bool) -> str:
    """Return the status as an OpenMetrics exposition; None is a status that cannot be read.

    `reasons` are those of `attention`.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Status(found, reasons, writing=writing))
    exposition: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return exposition.decode().rstrip("\n")
