"""`gramhouse changes`: what runs found of items and accounts, from the snapshot."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from connectors.warehouse.storage.statements import statements
from flows.cli.commands.explain import describe_change, describe_changes, read_changes
from flows.cli.current import open_current
from flows.cli.options import AccountNames, AsJson, SnapshotFile, number, since_time
from flows.cli.output.terminal import clean, out, print_json, print_row
from flows.clock import SystemClock
from flows.config.errors import SettingsError
from flows.reporting.reader import Reader
from flows.reporting.words import count, join, moment, run_title
from models.text import one_line

Record = dict[str, Any]

_SQL = statements(__name__)

_WITHOUT_COLUMNS = "hidden columns, or fields without a column"

_SHOWN = 100

# The number of characters shown of a caption.
_BEGINNING = 24


def _find(reader: Reader, these: str, *, with_values: bool) -> dict[str, list[Record]]:
    """Return the runs that meet a condition, and what they found."""
    runs = reader.records(_SQL["runs"].format(these=these))
    if not runs:
        return {"runs": [], "changes": [], "account_changes": []}
    seqs = [run["seq"] for run in runs]
    reader.records(f"SET VARIABLE run_seqs = {seqs}")
    reader.set(first_run=min(seqs))
    reader.records(_SQL["listed"])
    found = reader.records(_SQL["changes_with_values" if with_values else "changes"])
    if with_values:
        found = [change | {"values": read_changes(change, "values")} for change in found]
    return {"runs": runs, "changes": found, "account_changes": reader.records(_SQL["account_changes"])}


def _print_change(change: Mapping[str, Any]) -> None:
    """Print what changed of what, and below it where to look."""
    name = change["ig_username"] or change["account_id"]
    if change["change"] == "renamed":
        name = describe_change(change["old_ig_username"], change["new_ig_username"])
    caption = one_line(change.get("caption") or "", _BEGINNING)
    what = join(" ", (name, change.get("surface"), change.get("media_id")))
    columns = change.get("columns")
    names = _WITHOUT_COLUMNS if columns == [] else ", ".join(columns or ())
    text = join("  ", (what, caption, change.get("permalink"), describe_changes(change.get("values") or {}) or names))
    print_row(f"  {change['change']:<8}", clean(text))


def _print_changes(found: Mapping[str, list[Record]], numbers: Sequence[Record]) -> None:
    """Print the changes by run; runs without any are only counted."""
    rows = [*found["account_changes"], *found["changes"]]
    without = 0
    for run in found["runs"]:
        seq = run["seq"]
        counts = ", ".join(f"{each['items']:,} {each['change']}" for each in numbers if each["run_seq"] == seq)
        of_run = [row for row in rows if row["run_seq"] == seq]
        if not counts and not of_run and len(found["runs"]) > 1:
            without += 1
            continue
        title = f"{run_title(run['kind'], run['selection'])}, began {moment(run['started_at'])} UTC"
        print_row(f"[bold]Run {seq}[/]", f"({clean(title)}): {counts or 'no changes of items'}")
        for change in of_run:
            _print_change(change)
    if without:
        out.print(f"[dim]{count(without, 'run')} without changes {'is' if without == 1 else 'are'} not shown.[/]")


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
        found = _find(reader, these, with_values=values)
        numbers = reader.records(_SQL["counts_by_run"]) if found["runs"] and not as_json else []
    if as_json:
        print_json(found)
        return
    if not found["runs"]:
        out.print("No such run: `gramhouse runs` lists the last ones." if since_run or since else "No run yet.")
    if len(found["runs"]) > 1 and not (since_run or since):
        first, last = found["runs"][-1]["seq"], found["runs"][0]["seq"]
        out.print(f"The last run, and the unfinished runs before it: runs {first} to {last}.")
    _print_changes(found, numbers)
    total, listed = sum(each["items"] for each in numbers), len(found["changes"])
    if listed < total:
        out.print(f"The first {listed:,} of {count(total, 'change')}. List all with `--limit {total}`.")
