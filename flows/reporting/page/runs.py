"""The section about the last 30 runs: outcomes of their scans, requests, durations, and changes."""

from collections.abc import Callable, Sequence

from flows.reporting.page.html import Child, Html, Row, Table, element, figure, foreign, join
from flows.reporting.page.reader import Reader, Record, account, stamp
from flows.reporting.page.svg import Kind, Slot, bar, columns, legend
from flows.reporting.words import run_title, span

_RUNS = """
SELECT r.*, o.outcomes FROM (SELECT * FROM runs WHERE kind <> 'totals' ORDER BY seq DESC LIMIT 30) AS r
LEFT JOIN (
    SELECT run_id, histogram(outcome) AS outcomes FROM run_outcomes
    WHERE resource = 'accounts' OR ({only} AND surface IN {surfaces})
    GROUP BY run_id
) AS o USING (run_id) ORDER BY r.seq
"""

_COST = """
SELECT a.ig_username, sum(o.pages) AS pages, sum(o.items) AS items, count(*) AS scans
FROM run_outcomes AS o JOIN accounts AS a ON a.account_id = o.account_id
WHERE o.resource = 'media' AND o.surface IN {surfaces} AND a.{only}
  AND o.run_id IN (SELECT run_id FROM runs WHERE kind <> 'totals' ORDER BY seq DESC LIMIT 30)
GROUP BY a.ig_username HAVING sum(o.pages) > 0 ORDER BY pages DESC, a.ig_username LIMIT 10
"""

_OUTCOMES = {
    "complete": "c2",
    "recent": "c1",
    "skipped": "c0",
    "deferred": "waiting",
    "not_found": "c3",
    "denied": "c4",
    "failed": "trouble",
}
_NEWS = {"added": "c1", "changed": "c2", "returned": "c5", "expired": "c0", "removed": "trouble"}
_NOTES = {"interrupted": "interrupted", "failed": "failed", "running": "running", "partial": "partial"}


def _title(run: Record) -> str:
    return f"{run_title(run['kind'], run['selection'])}, {run['started_at']:%Y-%m-%d %H:%M} UTC: {run['state']}"


def _seconds(run: Record) -> float:
    return float(((run["ended_at"] or run["started_at"]) - run["started_at"]).total_seconds())


def _slots(runs: Sequence[Record], values: Callable[[Record], Sequence[float]], *, marked: bool = False) -> list[Slot]:
    days = [run["started_at"].date() for run in runs]
    labels = [f"{day.day} {day:%b}" if day != before else "" for day, before in zip(days, [None, *days], strict=False)]
    notes = [_NOTES.get(run["state"], "") if marked else "" for run in runs]
    return [Slot(_title(run), label, values(run), note) for run, label, note in zip(runs, labels, notes, strict=True)]


def _row(run: Record) -> Row:
    outcomes = run["outcomes"] or {}
    message = ", ".join(f"{outcomes[kind]:,} {kind.replace('_', ' ')}" for kind in _OUTCOMES if outcomes.get(kind))
    cells: list[Child] = [
        stamp(run["started_at"]),
        foreign(run_title(run["kind"], run["selection"]), 60),
        element("span", run["state"], class_=f"tag {run['state']}"),
        span(_seconds(run)) if run["ended_at"] else "",
        run["pages"],
        run["requests"],
        *(run[name] for name in _NEWS),
        message,
        element("code", foreign(run["error_code"])) if run["error_code"] else "",
    ]
    return Row(cells)


def runs(reader: Reader) -> Html:
    """Return four charts on one axis, with one table of the same runs."""
    found = reader.records(_RUNS)
    if not found:
        return element("p", "No run yet.")
    outcomes = [Kind(name.replace("_", " "), style) for name, style in _OUTCOMES.items()]
    seen = {name for run in found for name in run["outcomes"] or {}}
    used = [name for name in _OUTCOMES if name in seen]
    kinds = [kind for kind in outcomes if kind.name.replace(" ", "_") in used]
    news = [Kind(name, style) for name, style in _NEWS.items()]
    slots = _slots(found, lambda run: [(run["outcomes"] or {}).get(name, 0) for name in used], marked=True)
    by_outcome = columns("How the scans of each run ended, oldest run first", kinds, slots)
    pages = columns(
        "Pages that each run requested and landed",
        [Kind("pages", "c1")],
        _slots(found, lambda run: [run["pages"] or 0]),
        height=90,
    )
    took = columns(
        "Seconds that each run took",
        [Kind("seconds", "c5")],
        _slots(found, lambda run: [round(_seconds(run), 1)]),
        height=90,
    )
    changes = columns(
        "Media items that each run found new, changed, returned, expired or removed",
        news,
        _slots(found, lambda run: [run[name] or 0 for name in _NEWS]),
        height=120,
    )
    heads = ("began (UTC)", "run", "state", "took", "pages", "requests", *_NEWS, "scans", "why")
    table = Table(
        "The last 30 runs, newest first", heads, [_row(run) for run in reversed(found)], frozenset(range(3, 11))
    )
    lead = "One column per run, oldest first. A mark (!) above a column: the run is not complete."
    return join(
        [
            figure("Outcomes by run", lead, by_outcome, legend=legend(kinds)),
            element(
                "div",
                figure("Requests", "Pages landed; the first page of a scan counts as one.", pages),
                figure("Duration", "Seconds from start to end.", took),
                class_="pair",
            ),
            figure("What was new, changed and removed", None, changes, table, legend=legend(news)),
            _cost(reader),
        ]
    )


def _cost(reader: Reader) -> Html | None:
    found = reader.records(_COST)
    if not found:
        return None
    most = found[0]["pages"]
    rows = [
        Row(
            [account(each["ig_username"]), int(each["pages"]), bar(each["pages"] / most), int(each["items"] or 0)],
            reader.key(each["ig_username"]),
        )
        for each in found
    ]
    heads = ("account", "pages", "", "records")
    table = Table("Accounts with the most pages in the last 30 runs", heads, rows, frozenset({1, 3}))
    return join([element("h3", "Most expensive accounts"), table.html()])
