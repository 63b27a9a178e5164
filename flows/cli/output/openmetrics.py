"""`gramhouse status --format openmetrics`: the status as metrics for Prometheus.

Only gauges without timestamps, because node_exporter's textfile collector rejects other features of OpenMetrics.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from flows.cli.output.terminal import without_control_characters
from models.runs import RunState

# Labels and a value; samples with None are omitted.
Sample = tuple[Mapping[str, str], float | None]

_RUN_COUNTS = ("accounts", "pages", "items", "added", "changed", "removed", "expired", "returned", "quarantined")


def _plain(value: float | None) -> Iterator[Sample]:
    yield {}, value


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _escaped(text: str) -> str:
    # An error code may be any text that the API sent.
    return without_control_characters(text).replace("\\", r"\\").replace('"', r"\"")


def _family(name: str, what: str, samples: Iterable[Sample]) -> Iterator[str]:
    lines = []
    for labels, value in samples:
        if value is not None:
            inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            lines.append(f"gramhouse_{name}{f'{{{inner}}}' if inner else ''} {value!r}")
    if lines:
        yield f"# TYPE gramhouse_{name} gauge"
        yield f"# HELP gramhouse_{name} {what}"
        yield from lines


def _last_run(run: Mapping[str, Any]) -> Iterator[str]:
    began, ended = _seconds(run["started_at"]), _seconds(run["ended_at"])
    states = (({"state": state.value}, int(run["state"] == state.value)) for state in RunState)
    counts = (({"what": name}, run.get(name)) for name in _RUN_COUNTS)
    took = ended - began if began is not None and ended is not None else None
    yield from _family("last_run_state", "1 for the state of the last sync or backfill, else 0.", states)
    yield from _family("last_run_started_timestamp_seconds", "When the last run began.", _plain(began))
    yield from _family("last_run_ended_timestamp_seconds", "When the last run ended.", _plain(ended))
    yield from _family("last_run_duration_seconds", "How long the last run took.", _plain(took))
    yield from _family("last_run_count", "What the last run landed and changed.", counts)


def _snapshot(found: Mapping[str, Any]) -> Iterator[str]:
    totals, fresh = found["totals"], found["freshness"]

    def by_surface(column: str) -> Iterator[Sample]:
        return (({"surface": each["surface"]}, each[column]) for each in fresh)

    published = _seconds(totals["published_at"])
    items = (({"surface": surface}, totals[surface]) for surface in ("posts", "stories"))
    incomplete = [
        ({"outcome": each["outcome"], "code": each["error_code"]}, each["scans"], _seconds(each["resume_after"]))
        for each in found["failures"]
    ]
    yield from _family("snapshot_published_timestamp_seconds", "When the snapshot was published.", _plain(published))
    yield from _family("accounts", "Accounts that the catalogue lists.", _plain(totals["accounts"]))
    yield from _family("accounts_token_expired", "Accounts whose token must be renewed.", _plain(totals["expired"]))
    yield from _family("media_items", "Media items that are present.", items)
    yield from _family("quarantined_records", "Records in quarantine.", _plain(totals["quarantined"]))
    yield from _family("stale_after_seconds", "GRAMHOUSE_STALE_AFTER.", _plain(totals["stale_after"]))
    yield from _family("fresh_expected_accounts", "Accounts that should be fresh.", by_surface("accounts"))
    yield from _family("stale_accounts", "Those of them that are stale.", by_surface("stale"))
    yield from _family("never_complete_accounts", "Those without a complete scan.", by_surface("never"))
    yield from _family("oldest_age_seconds", "Age of the oldest that should be fresh.", by_surface("age_seconds"))
    counts = ((labels, scans) for labels, scans, _ in incomplete)
    yield from _family("incomplete_scans", "Scans that are not complete, by outcome and error code.", counts)
    waits = ((labels, until) for labels, _, until in incomplete)
    yield from _family("cooldown_until_timestamp_seconds", "When the last cooldown of such scans ends.", waits)


def metrics(found: Mapping[str, Any], reasons: Mapping[str, bool], *, writing: bool) -> str:
    """Return the status as an OpenMetrics exposition; `reasons` are those of `attention`."""
    why = (({"reason": reason}, int(holds)) for reason, holds in reasons.items())
    unresolved = len(found["unresolved"])
    lines = [
        *_family("snapshot_readable", "1 if there is a snapshot that can be read.", _plain(int(bool(found["totals"]))))
    ]
    lines += _family("attention", "1 for each reason that requires attention, else 0.", why)
    lines += _family("writer_active", "1 while a process writes the warehouse.", _plain(int(writing)))
    lines += _family(
        "unresolved_runs", "Failed or interrupted runs that no later run has replaced.", _plain(unresolved)
    )
    if found["last_run"]:
        lines += _last_run(found["last_run"])
    if found["totals"]:
        lines += _snapshot(found)
    return "\n".join([*lines, "# EOF"])


def unreadable() -> str:
    """Return the exposition for a status that cannot be read."""
    lines = _family("snapshot_readable", "1 if there is a snapshot that can be read.", _plain(0))
    return "\n".join([*lines, "# EOF"])
