"""`gramhouse accounts` and `gramhouse runs`: lists from the snapshot."""

from typing import Annotated

import typer

from connectors.warehouse.snapshot.reader import open_snapshot
from connectors.warehouse.storage.statements import statements
from flows.cli.current_run import current
from flows.cli.options import AsJson, SnapshotFile, WarehouseFile
from flows.cli.output.plain_table import print_rows
from flows.cli.output.terminal import WARN, clean, err, out, print_json
from flows.cli.snapshot_download import current_snapshot
from flows.config.settings import load
from flows.reporting.words import count, run_title
from models.feeds import SURFACES

_SQL = statements(__name__)

_SURFACES = sorted(SURFACES)
_COUNTS = ", ".join(f"count(*) FILTER (m.surface = '{each}') AS {each}" for each in _SURFACES)

_REMOVED = "SELECT count(*) FROM accounts WHERE removed_at IS NOT NULL"

_STATES = {"complete": "green", "partial": "yellow", "interrupted": "yellow", "failed": "red", "running": "cyan"}


def accounts(
    *,
    expired: Annotated[
        bool, typer.Option("--expired", help="Only accounts whose access token must be renewed.")
    ] = False,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> None:
    """List accounts: status, token expiry and age of their media."""
    with open_snapshot(current_snapshot(load(snapshot=snapshot))) as opened:
        items = opened.items("account_id, surface, removed_at")
        rows = opened.query(_SQL["accounts"].format(counts=_COUNTS, items=items), [expired]).records()
        [(removed,)] = opened.query(_REMOVED).rows
    if as_json:
        print_json({"accounts": rows})
        return
    if not rows:
        out.print("No token is expired." if expired else "No accounts yet.")
        return
    columns = {"account": "ig_username", "token expired": "token_expired_since", **{each: each for each in _SURFACES}}
    if any(row["missing_since"] for row in rows):
        columns["missing since"] = "missing_since"
    shown = [row | {"media_as_of": row["media_as_of"] or "never"} for row in rows]
    print_rows(shown, {**columns, "media as of": "media_as_of", "account id": "account_id"})
    if removed:
        out.print(f"[dim]{count(removed, 'account')} marked as removed and not shown.[/]")


def runs(
    *,
    last: Annotated[int, typer.Option(help="Number of runs.", min=1, max=1_000_000_000)] = 20,
    warehouse: WarehouseFile = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> None:
    """List recent runs: what they landed and how they ended."""
    settings = load(snapshot=snapshot, warehouse=warehouse)
    now = current(settings)
    with open_snapshot(current_snapshot(settings)) as opened:
        rows = now.runs(opened, last)
    if now.problem:
        err.print(f"{WARN} {clean(now.problem)}", soft_wrap=True)
    if as_json:
        print_json({"runs": rows})
        return
    columns = {"began (UTC)": "started_at", "run": "run", "state": "state", "took": "took"}
    columns |= {"pages": "pages", "new": "added", "changed": "changed", "gone": "gone"}
    shown = [
        row
        | {
            "run": run_title(row["kind"], row["selection"]),
            "took": row["ended_at"] and row["ended_at"] - row["started_at"],
            "gone": None if row["removed"] is None else row["removed"] + row["expired"],
        }
        for row in rows
    ]
    print_rows(shown, {**columns, "why": "error_code"}, _STATES)
