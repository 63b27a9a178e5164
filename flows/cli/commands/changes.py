"""`gramhouse changes`: what runs found of items and accounts, from the snapshot."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from connectors.warehouse.storage.statements import statements
from flows.cli.commands.explain import pair
from flows.cli.current import open_current
from flows.cli.options import AccountNames, AsJson, SnapshotFile, number, since_time
from flows.cli.output.terminal import clean, out, print_json, print_lines
from flows.clock import SystemClock
from flows.config.errors import SettingsError
from flows.reporting.reader import Reader
from flows.reporting.words import count, join, moment, run_title

Record = dict[str, Any]

_SQL = statements(__name__)

_WITHOUT_COLUMNS = "hidden columns, or fields without a column"

_SHOWN = 100


def _item(row: Mapping[str, object]) -> tuple[object, ...]:
    return row["account_id"], row["surface"], row["media_id"]


def with_values(changes: Sequence[Record], versions: Sequence[Record], counts: Sequence[Record]) -> list[Record]:
    """Return the changes with `values`: of each column and count, the value before the run and after it; no IO.

    `versions` are in the order of time; their `run_seq` is that of the run that found the next one.
    """
    of_items: dict[object, list[Record]] = defaultdict(list)
    counted: dict[object, Record] = defaultdict(dict)
    for version in versions:
        of_items[_item(version)].append(version)
    for row in counts:
        counted[*_item(row), row["run_seq"]][row["metric"]] = {"old": row["old"], "new": row["new"]}

    def values(change: Record) -> Record:
        found: Record = {}
        if change["change"] == "changed":
            of_item = of_items[_item(change)]
            ended = [at for at, one in enumerate(of_item) if one["valid_to"] and one["run_seq"] == change["run_seq"]]
            if ended:
                old, new = of_item[ended[0]], of_item[ended[-1] + 1]
                found = {name: {"old": old[name], "new": new[name]} for name in change["columns"]}
        return found | (counted[*_item(change), change["run_seq"]] if change["change"] != "new" else {})

    return [change | {"values": values(change)} for change in changes]


def _text(change: Mapping[str, Any]) -> str:
    if change["change"] == "renamed":
        return pair({"old": change["old_ig_username"], "new": change["new_ig_username"]})
    columns = change.get("columns")
    values = dict.fromkeys(columns or ()) | change.get("values", {})
    named = (f"{name}: {pair(value)}" if value else name for name, value in values.items())
    return join(", ", (columns == [] and _WITHOUT_COLUMNS, *named))


def _by_run(rows: Sequence[Record]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = defaultdict(list)
    for row in rows:
        found[row["run_seq"]].append(row)
    return found


def _lines(found: Mapping[str, list[Record]], numbers: Sequence[Record]) -> Iterator[str]:
    of_runs, counted = _by_run([*found["account_changes"], *found["changes"]]), _by_run(numbers)
    for run in found["runs"]:
        title = f"{run_title(run['kind'], run['selection'])}, began {moment(run['started_at'])} UTC"
        counts = ", ".join(f"{each['items']:,} {each['change']}" for each in counted[run["seq"]])
        yield f"[bold]Run {run['seq']}[/] ({clean(title)}): {counts or 'no changes of items'}"
        for change in of_runs[run["seq"]]:
            name = change["ig_username"] or change["account_id"]
            what = join(" ", (name, change.get("surface"), change.get("media_id")))
            text = clean(join("  ", (what, _text(change))))
            yield f"  [dim]{moment(change['changed_at'], seconds=True)}[/]  {change['change']:<13}  {text}"


def changes(
    *,
    since_run: Annotated[
        int | None, number(1, 1_000_000_000, "Of this run (`seq` in runs) and all later ones.")
    ] = None,
    since: Annotated[
        str | None,
        Parameter(metavar="TIME", help="Of the runs that began since then: 2d, 36h, 90m, or a date (UTC)."),
    ] = None,
    account: AccountNames = None,
    values: Annotated[bool, Parameter(help="Also the values before and after.")] = False,
    limit: Annotated[
        int | None,
        number(1, 1_000_000_000, "Number of changes to list. Default: 100, or all with --json."),
    ] = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> None:
    """List what the last run, or the runs since then, found.

    Runs before the last one that were interrupted, or ended but were not published, are listed with it. An item has one
    line for each run and kind of change, and so has an account: new, renamed, token_expired, active, removed, returned.
    """
    if since_run is not None and since is not None:
        raise SettingsError("--since-run and --since exclude each other. Fix: use one of them.")
    these = _SQL["unreported"] if since_run is None else f"seq >= {since_run}"
    if since is not None:
        these = f"started_at >= TIMESTAMPTZ '{since_time('--since', since, SystemClock().now())}'"
    with open_current(snapshot) as opened:
        reader = Reader(opened, account or ())
        reader.set(most=limit or (None if as_json else _SHOWN))
        found = {"runs": reader.records(_SQL["runs"].format(these=these)), "changes": [], "account_changes": []}
        numbers: list[Record] = []
        if found["runs"]:
            seqs = [run["seq"] for run in found["runs"]]
            opened.query(f"SET VARIABLE run_seqs = {seqs}")
            reader.set(first_run=min(seqs))
            reader.records(_SQL["listed"])
            numbers = [] if as_json else reader.records(_SQL["counts_by_run"])
            found |= {name: reader.records(_SQL[name]) for name in ("changes", "account_changes")}
            if values:
                found["changes"] = with_values(
                    found["changes"], reader.records(_SQL["versions"]), reader.records(_SQL["counts"])
                )
    if as_json:
        print_json(found)
        return
    if not found["runs"]:
        out.print("No such run: `gramhouse runs` lists the last ones." if since_run or since else "No run yet.")
    if len(found["runs"]) > 1 and not (since_run or since):
        first, last = found["runs"][-1]["seq"], found["runs"][0]["seq"]
        out.print(f"The last run, and the unfinished runs before it: runs {first} to {last}.")
    print_lines(_lines(found, numbers))
    total, listed = sum(each["items"] for each in numbers), len(found["changes"])
    if listed < total:
        out.print(f"The newest {listed:,} of {count(total, 'change')}. List all with `--limit {total}`.")
