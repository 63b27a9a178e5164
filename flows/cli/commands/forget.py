"""`gramhouse forget`: erases an account everywhere, and keeps syncs from importing it again."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import AsJson, LogFormat, SnapshotFile, WarehouseFile
from flows.cli.output.terminal import DONE, WARN, agreed, clean, err, print_result
from flows.cli.signals import run_until_signalled
from flows.config.errors import SettingsError
from flows.config.settings import Settings, load
from flows.reporting.exit_code import ExitCode
from flows.reporting.words import count, join

if TYPE_CHECKING:
    from flows.engine.forgetting import Receipt


def _confirmed(settings: Settings, account: str) -> str:
    """Ask on the terminal whether to erase an account; return its id. Raises typer.Exit if the answer is no."""
    from flows.engine.forgetting import find_now

    if not sys.stdin.isatty():
        message = "Nothing was erased: there is no terminal to ask for confirmation. Fix: add --yes."
        raise SettingsError(message)
    found, items = find_now(settings, account)
    what = f"{found.name} (account {found.account_id}) and {count(items, 'item')}"
    if not agreed(f"Erase {what} everywhere? This cannot be undone."):
        err.print("Nothing was erased.")
        raise typer.Exit(ExitCode.FAILED)
    return found.account_id


def _document(receipt: "Receipt", code: ExitCode) -> dict[str, object]:
    from flows.engine.forgetting import NOT_REACHED

    return {
        "account_ids": [account.account_id for account in receipt.erased.accounts],
        "removed": receipt.erased.removed,
        "rewritten": receipt.rewritten,
        "removed_files": receipt.removed_files,
        "bucket_files_deleted": receipt.bucket_files,
        "searched": [str(path) for path in receipt.searched],
        "found": {str(path): found for path, found in receipt.found.items()},
        "not_reached": NOT_REACHED,
        "exit_code": code,
    }


def _lines(receipt: "Receipt") -> Iterator[str]:
    from flows.engine.forgetting import NOT_REACHED

    accounts = [account.account_id for account in receipt.erased.accounts]
    removed = ", ".join(f"{clean(name)} {rows:,}" for name, rows in receipt.erased.removed.items())
    yield f"{DONE} Erased account {', '.join(accounts)}. Rows: {removed or 'none'}."
    yield f"  Written again: {', '.join(map(clean, receipt.rewritten))}."
    bucket = count(receipt.bucket_files, "old file") + " in the bucket" if receipt.bucket_files else ""
    if deleted := join(", ", (*map(clean, receipt.removed_files), bucket)):
        yield f"  Deleted: {deleted}."
    searched = f"Searched {count(len(receipt.searched), 'file')} for its id and names"
    yield f"{WARN} {searched}. Still found:" if receipt.found else f"  {searched}: nothing found."
    for path, found in receipt.found.items():
        places = ", ".join(f"{clean(place)} ({number:,})" for place, number in found.items())
        yield f"    {clean(path)}: {places}"
    yield f"  Not reached, if they exist: {'; '.join(NOT_REACHED)}."
    for account_id in accounts:
        yield f"  Syncs skip it. To let them import it again: gramhouse forget {account_id} --undo"


def _undo(settings: Settings, account: str, *, as_json: bool) -> None:
    from flows.engine.forgetting import undo_now

    if not run_until_signalled(lambda _: undo_now(settings, account)):
        message = f"'{account}' is not the id of a forgotten account. Fix: give the account's id; its name is not kept."
        raise SettingsError(message)
    document = {"account_id": account.lower(), "exit_code": ExitCode.COMPLETE}
    print_result(document, [f"{DONE} Syncs import account {clean(account.lower())} again."], as_json=as_json)


def forget(
    account: Annotated[str, typer.Argument(metavar="ACCOUNT", help="Id, name or public id of an account.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Let syncs import a forgotten account (its id) again; restores no data.")
    ] = False,
    warehouse: WarehouseFile = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
    _: LogFormat = "text",
) -> None:
    """Erase an account everywhere; syncs do not import it again.

    Rewrites the warehouse, raw store, snapshot, report and bucket, and ends with a receipt: what was removed, and a
    search of all files for the account. If it is interrupted, run it again. It needs disk space for a second copy of
    the warehouse file.

    Exit codes: 0 erased and nothing found, 1 failed or not confirmed, 2 wrong usage or no such account, 3 erased, but
    data of other accounts still mention it, 4 the warehouse is held by another process.
    """
    settings = load(warehouse=warehouse, snapshot=snapshot)
    if undo:
        _undo(settings, account, as_json=as_json)
        return
    chosen = account if yes else _confirmed(settings, account)
    from flows.engine.forgetting import forget_now

    receipt = run_until_signalled(lambda _: forget_now(settings, chosen))
    code = ExitCode.PARTIAL if receipt.found else ExitCode.COMPLETE
    print_result(_document(receipt, code), _lines(receipt), as_json=as_json)
    raise typer.Exit(code)
