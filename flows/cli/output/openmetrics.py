"""`gramhouse status --format openmetrics`: the status as metrics for Prometheus.

Only gauges without timestamps, because node_exporter's textfile collector rejects other features of OpenMetrics.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from flows.cli.output.terminal import without_control_characters

REASONS = (
    *("interrupted", "unpublished", "failed", "warning", "stale", "removals_undecided", "long_cooldown"),
    *("status_file", "snapshot_log", "unfinished_erasure"),
)
"""The reasons for attention: codes of findings. Any other finding that requires action is a warning."""

_RUN_COUNTS = ("accounts", "pages", "items", "added", "changed", "removed", "expired", "returned", "quarantined")

# A metric: its name, description, and labels, and rows with their values and that of the metric; None is omitted.
_Rows = Iterable[tuple[Any, ...]]
_Metric = tuple[str, str, tuple[str, ...], _Rows]


def _metrics(found: Mapping[str, Any] | None) -> Iterable[_Metric]:
    totals = None if found is None else found["totals"]
    yield "snapshot_readable", "1 if there is a snapshot that can be read.", (), [(int(totals is not None),)]
    if found is None:
        return
    reasons = [(reason, int(reason in found["attention"])) for reason in REASONS]
    yield "attention", "1 for each reason that requires attention, else 0.", ("reason",), reasons
    # Not a run in progress: its time and counts would be missing until it ends, and if it is killed, for good.
    if run := found["last_ended_run"]:
        counts = ((name, run.get(name)) for name in _RUN_COUNTS)
        ended = [(run["ended_at"].timestamp(),)]
        yield "last_run_ended_timestamp_seconds", "When the last run that ended did so.", (), ended
        yield "last_run_count", "What it landed and changed.", ("what",), counts
    if totals is None:
        return
    ages, stale = ([(each["surface"], each[name]) for each in found["freshness"]] for name in ("age_seconds", "stale"))
    scans, ends = Counter[tuple[str, str]](), dict[tuple[str, str], float]()
    for each in found["failures"]:
        cause = each["outcome"], each["error_code"]
        scans[cause] += each["scans"]
        if each["resume_after"]:
            ends[cause] = max(ends.get(cause, 0.0), each["resume_after"].timestamp())
    yield "accounts_token_expired", "Accounts whose token must be renewed.", (), [(totals["expired"],)]
    yield "stale_after_seconds", "GRAMHOUSE_STALE_AFTER.", (), [(totals["stale_after"],)]
    yield "stale_accounts", "Accounts that should be fresh and are stale.", ("surface",), stale
    yield "oldest_age_seconds", "Age of the oldest that should be fresh.", ("surface",), ages
    what, of_cause = "Scans that are not complete, by outcome and error code.", ("outcome", "code")
    yield "incomplete_scans", what, of_cause, [(*cause, number) for cause, number in scans.items()]
    what = "When the last cooldown of such scans ends."
    yield "cooldown_until_timestamp_seconds", what, of_cause, [(*cause, end) for cause, end in ends.items()]


def metrics(found: Mapping[str, Any] | None) -> str:
    """Return the status as an OpenMetrics exposition; None is a status that cannot be read."""
    lines = list[str]()
    for name, what, labels, rows in _metrics(found):
        if known := [row for row in rows if row[-1] is not None]:
            lines += [f"# HELP gramhouse_{name} {what}", f"# TYPE gramhouse_{name} gauge"]
            for *values, number in known:
                # An error code may be any text that the API sent. JSON escapes what OpenMetrics does.
                texts = (json.dumps(without_control_characters(value), ensure_ascii=False) for value in values)
                pairs = ",".join(f"{label}={text}" for label, text in zip(labels, texts, strict=True))
                lines.append(f"gramhouse_{name}{f'{{{pairs}}}' if pairs else ''} {float(number)}")
    return "\n".join([*lines, "# EOF"])
