"""`gramhouse publish`, `gramhouse rebuild`, `gramhouse compact` and `gramhouse forget`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from cyclopts import Parameter

from flows.cli.options import WarehouseOptions, of_setting
from flows.cli.table import fields
from flows.cli.terminal import DONE, Answer, clean
from flows.config.errors import ExitCode, SettingsError
from flows.config.settings import Settings
from flows.reporting.words import count


def publish(
    *,
    busy_wait: Annotated[float | None, of_setting("busy_wait")] = None,
    show_hidden: bool = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> Answer:
    """Merge landed pages and publish a snapshot, without requests.

    Args:
        show_hidden: Publish although the snapshot would show what the last one hid.
    """
    from flows.engine.upkeep import publish_now

    settings = options.settings(busy_wait=busy_wait)
    size = publish_now(settings, may_show=show_hidden)
    document = {"snapshot": settings.snapshot, "snapshot_bytes": size}
    return Answer(document, fields(document))


def compact(*, options: WarehouseOptions = WarehouseOptions()) -> Answer:
    """Rewrite the warehouse file, compacted and sorted.

    Small parts of the raw store are combined, without superseded rows that are older than GRAMHOUSE_KEEP_RAW. The parts
    that this replaces are deleted by another compact, a day later or more, because an older snapshot refers to them.

    It needs disk space for a second copy. If it fails, the old file is unchanged.

    Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 4 the warehouse is held by another process.
    """
    from flows.engine.upkeep import compact_now

    document = compact_now(options.settings())
    return Answer(document, fields(document))


def rebuild(*, dry_run: bool = False, force: bool = False, options: WarehouseOptions = WarehouseOptions()) -> Answer:
    """Read raw store and quarantine again with the current mapping.

    The raw store contains every item as received. Media items in quarantine become rows if they have an id now; an
    older version of an item never replaces a newer one.

    Args:
        dry_run: Only print how many items have each path of the mapping.
        force: Rebuild even if a mapped column that has values becomes empty, or items have other ids.
    """
    settings = options.settings()
    from flows.engine.upkeep import count_paths_now, rebuild_now

    if dry_run:
        counts = count_paths_now(settings)
        return Answer(counts, _list_paths(settings, counts))
    document = rebuild_now(settings, force=force)
    lines = _list_paths(settings, {**document, "emptied": [], "other_ids": 0})
    return Answer(document, [*fields({**document, "paths": None}), *lines])


def _list_paths(settings: Settings, counts: Mapping[str, Any]) -> Iterator[str]:
    from connectors.warehouse.maintenance.rebuild import explain_paths

    return map(clean, explain_paths(settings.media_mapping(), counts))


def forget(
    account: Annotated[str, Parameter(metavar="ACCOUNT")],
    /,
    *,
    yes: bool = False,
    undo: bool = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> Answer:
    """Erase an account everywhere; syncs do not import it again.

    Without --yes it says what would be erased, and exits with 2. It writes warehouse, raw store, state, snapshot,
    report and bucket again, and ends with a receipt: what was removed, and what it does not reach. If it is
    interrupted, run it again. It needs disk space for a second copy of the warehouse file.

    Exit codes: 0 erased, 1 failed, 2 wrong usage or no such account, 3 erased, but not published, 4
    the warehouse is held by another process.

    Args:
        account: Id, name or public id of an account.
        yes: Erase it; without this, only say what would be erased.
        undo: Let syncs import a forgotten account (its id) again; restores no data.
    """
    settings = options.settings()
    from flows.engine.upkeep import find_now, forget_now, undo_now

    if undo:
        if not undo_now(settings, account):
            raise SettingsError(
                f"'{account}' is not the id of a forgotten account. Fix: give the account's id; its name is not kept."
            )
        again = f"{DONE} Syncs import account {clean(account.lower())} again."
        return Answer({"account_id": account.lower(), "exit_code": ExitCode.COMPLETE}, [again])
    if not yes:
        found, items = find_now(settings, account)
        name, *_ = (*found.names, found.account_id)
        what = f"{name} (account {found.account_id}) and {count(items, 'item')}"
        raise SettingsError(f"{what} would be erased everywhere, which cannot be undone. Fix: add --yes.")
    document = {**forget_now(settings, account), "exit_code": ExitCode.COMPLETE}
    erased = f"{DONE} Erased. Syncs skip it; `--undo`, with its id, lets them import it again."
    return Answer(document, [erased, *fields(document)])
