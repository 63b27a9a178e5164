"""`gramhouse status --format openmetrics`: the status as metrics for Prometheus.

Only gauges without timestamps, because node_exporter's textfile collector rejects other features of OpenMetrics.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from prometheus_client.core import CollectorRegistry, Gauge
from prometheus_client.openmetrics.exposition import generate_latest

from flows.cli.output.terminal import without_control_characters
from models.feeds import SURFACES
from models.runs import RunState

# Labels and a value; samples with None are omitted.
_Sample = tuple[Mapping[str, str], float | None]

# The name of a gauge, its description, and its value or samples.
_Gauge = tuple[str, str, float | Iterable[_Sample] | None]

_RUN_COUNTS = ("accounts", "pages", "items", "added", "changed", "removed", "expired", "returned", "quarantined")


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _last_run(run: Mapping[str, Any]) -> Iterator[_Gauge]:
    began, ended = _seconds(run["started_at"]), _seconds(run["ended_at"])
    states = (({"state": state.value}, int(run["state"] == state.value)) for state in RunState)
    counts = (({"what": name}, run.get(name)) for name in _RUN_COUNTS)
    took = ended - began if began is not None and ended is not None else None
    yield "last_run_state", "1 for the state of the last sync or backfill, else 0.", states
    yield "last_run_started_timestamp_seconds", "When the last run began.", began
    yield "last_run_ended_timestamp_seconds", "When the last run ended.", ended
    yield "last_run_duration_seconds", "How long the last run took.", took
    yield "last_run_count", "What the last run landed and changed.", counts


def _snapshot(found: Mapping[str, Any]) -> Iterator[_Gauge]:
    totals = found["totals"]

    def by_surface(column: str) -> Iterator[_Sample]:
        return (({"surface": each["surface"]}, each[column]) for each in found["freshness"])

    items = (({"surface": surface}, totals[surface]) for surface in sorted(SURFACES))
    failures = [({"outcome": each["outcome"], "code": each["error_code"]}, each) for each in found["failures"]]
    scans = ((labels, each["scans"]) for labels, each in failures)
    waits = ((labels, _seconds(each["resume_after"])) for labels, each in failures)
    published = _seconds(totals["published_at"])
    yield "snapshot_published_timestamp_seconds", "When the snapshot was published.", published
    yield "accounts", "Accounts that the catalogue lists.", totals["accounts"]
    yield "accounts_token_expired", "Accounts whose token must be renewed.", totals["expired"]
    yield "media_items", "Media items that are present.", items
    yield "quarantined_records", "Records in quarantine.", totals["quarantined"]
    yield "stale_after_seconds", "GRAMHOUSE_STALE_AFTER.", totals["stale_after"]
    yield "fresh_expected_accounts", "Accounts that should be fresh.", by_surface("accounts")
    yield "stale_accounts", "Those of them that are stale.", by_surface("stale")
    yield "never_complete_accounts", "Those without a complete scan.", by_surface("never")
    yield "oldest_age_seconds", "Age of the oldest that should be fresh.", by_surface("age_seconds")
    yield "incomplete_scans", "Scans that are not complete, by outcome and error code.", scans
    yield "cooldown_until_timestamp_seconds", "When the last cooldown of such scans ends.", waits


def _gauges(found: Mapping[str, Any] | None, reasons: Mapping[str, bool], *, writing: bool) -> Iterator[_Gauge]:
    is_readable = found is not None and found["totals"] is not None
    yield "snapshot_readable", "1 if there is a snapshot that can be read.", int(is_readable)
    if found is None:
        return
    why = (({"reason": reason}, int(holds)) for reason, holds in reasons.items())
    unresolved = "Failed or interrupted runs that no later run has replaced."
    yield "attention", "1 for each reason that requires attention, else 0.", why
    yield "writer_active", "1 while a process writes the warehouse.", int(writing)
    yield "unresolved_runs", unresolved, len(found["unresolved"])
    if found["last_run"]:
        yield from _last_run(found["last_run"])
    if is_readable:
        yield from _snapshot(found)


def metrics(found: Mapping[str, Any] | None, reasons: Mapping[str, bool], *, writing: bool) -> str:
    """Return the status as an OpenMetrics exposition; None is a status that cannot be read.

    `reasons` are those of `attention`.
    """
    registry = CollectorRegistry()
    for name, what, value in _gauges(found, reasons, writing=writing):
        samples = value if isinstance(value, Iterable) else [({}, value)]
        known = [(labels, number) for labels, number in samples if number is not None]
        if not known:
            continue
        gauge = Gauge(f"gramhouse_{name}", what, tuple(known[0][0]), registry=registry)
        for labels, number in known:
            # An error code may be any text that the API sent.
            plain = [without_control_characters(text) for text in labels.values()]
            (gauge.labels(*plain) if plain else gauge).set(number)
    exposition: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return exposition.decode().rstrip("\n")
