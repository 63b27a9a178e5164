"""What a person should know about a run beyond its outcomes: its warnings, each found in one place."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from connectors.state.runs import read_runs
from connectors.warehouse.merge.removals import ACCOUNTS_CONFIRM_AFTER_HOURS, ACCOUNTS_LIMIT, Removals
from connectors.warehouse.queries.outcomes import (
    count_unread_values,
    find_lone_change,
    find_missing_accounts,
    read_names,
    read_scan_findings,
)
from flows.engine.run import Run
from flows.reporting.words import count, per_second
from models.runs import Finding, OutcomeKind, RunState, Severity, Tally, several

_RELEASE = (
    "if they were really deleted, run `gramhouse sync --accept-removals` (for media, an hour after they were missed"
    " first)"
)

ACCOUNTS_MISSING = "accounts_missing"

# A field is suspicious if it alone changed most items in this many syncs, one after the other.
_SYNCS = 3

_CONTRADICTIONS = {
    "listed_twice": (
        "accounts_listed_twice",
        "The last catalogue listed {what} several times with different values",
        "the first record counts; report it to the service",
    ),
    "same_id": (
        "ids_shared",
        "Items of one scan share an id and are not the same, in {what}; no missing item was marked as removed there",
        "check the paths of media_id under [mapping] in gramhouse.toml, then report it to the service",
    ),
}


async def find_warnings(run: Run, outcomes: Tally, removals: Removals) -> Sequence[Finding]:
    """Return the warnings of a run, after its last merge: those that need a person first.

    Raises WarehouseUnusable.
    """
    warehouse, is_sync = run.resources.warehouse, run.request.options.kind == "sync"
    found = [*_limited(run)]
    if is_sync:
        found += _missing_accounts(await warehouse.read(find_missing_accounts), removals)
        found += await _changed_by_one_field(run)
    elif outcomes[OutcomeKind.SKIPPED] == outcomes.total:
        which = "the account has expired" if run.batcher.listed == 1 else "all chosen accounts have expired"
        text = f"Nothing was scanned: the token of {which}"
        fix = "the owner must renew it first, or set GRAMHOUSE_SCAN_EXPIRED=true"
        found.append(Finding("nothing_scanned", Severity.ACTION, text, fix, count=run.batcher.listed))
    names = await warehouse.read(read_names, removals.accounts_with_too_many)
    if removals.too_many_items or names:
        of = f" ({several(names)})" if names else ""
        text = (
            f"{count(removals.missing_items, 'media item')} missing from the lists of their accounts{of}, and not"
            " marked as removed yet: so many are only marked as removed by a person"
        )
        fix = f"check that the service shows them; {_RELEASE}"
        found.append(Finding("items_missing", Severity.ACTION, text, fix, count=removals.missing_items))
    for kind, accounts in (await warehouse.read(read_scan_findings)).items():
        code, text, fix = _CONTRADICTIONS[kind]
        what = f"{count(len(accounts), 'account')} ({several(accounts)})"
        found.append(Finding(code, Severity.ACTION, text.format(what=what), fix, count=len(accounts)))
    if lost := await warehouse.read(count_unread_values, warehouse.files.mapping):
        named = ", ".join(f"{name} ({items:,})" for name, items in sorted(lost.items(), key=lambda each: -each[1]))
        text = f"Values of media items that could not be converted to their column's type and are NULL: {named}"
        fix = "set a path to the value under [mapping] in gramhouse.toml, then run `gramhouse rebuild`"
        found.append(Finding("values_not_cast", Severity.WARNING, text, fix, count=sum(lost.values())))
    return sorted(found, key=lambda each: (each.severity is not Severity.ACTION, each.code))


def _limited(run: Run) -> Iterator[Finding]:
    """Yield a warning if the service limited all requests."""
    allowed, fixed = run.requests.rate.allowed, run.resources.rate.fixed
    if allowed is None:
        return
    severity, kept, fix = Severity.INFORMATION, "; pace kept", ""
    if fixed is not None:
        severity, kept = Severity.WARNING, f", and GRAMHOUSE_REQUESTS_PER_SECOND is {fixed:g}"
        fix = "lower the setting, or remove it, so that runs find out what it allows"
    text = f"The service allows {per_second(allowed)}{kept} ({count(run.progress.refused, 'request')} refused)"
    yield Finding("requests_per_second", severity, text, fix, count=round(allowed))


def _missing_accounts(found: Mapping[str, Any], removals: Removals) -> Iterator[Finding]:
    """Yield warnings about accounts that are not in the catalogue: those marked as removed, and those not yet.

    The latter make the run partial if they are more than a tenth, or if the catalogue did not decide about them.
    """
    if gone := removals.removed_accounts:
        text = f"{count(gone, 'account')} marked as removed: no longer in the catalogue"
        yield Finding("accounts_removed", Severity.INFORMATION, text, count=gone)
    if not (found["missing"] or found["is_empty"]):
        return
    then = f"a sync at least {ACCOUNTS_CONFIRM_AFTER_HOURS} hours later may do so"
    if removals.too_many_accounts:
        then = "so many are only marked as removed by a person"
    text = "The catalogue is empty: the API key reaches no account"
    if missing := found["missing"]:
        which = f"{missing:,} of {found['known']:,} known accounts ({several(found['names'])})"
        verb = "is" if missing == 1 else "are"
        text = f"{which} {verb} missing from the catalogue, and not marked as removed yet: {then}"
    is_serious = found["is_empty"] or found["undecided"] > 0 or missing > ACCOUNTS_LIMIT * found["known"]
    severity = Severity.ACTION if is_serious else Severity.WARNING
    fix = f"check which accounts the API key can access, and the address; {_RELEASE}"
    yield Finding(ACCOUNTS_MISSING, severity, text, fix, count=missing)


async def _changed_by_one_field(run: Run) -> Sequence[Finding]:
    """Return a warning that names what alone changed most items in the last syncs of these surfaces."""
    warehouse, done = run.resources.warehouse, (RunState.RUNNING, RunState.COMPLETE, RunState.PARTIAL)
    # Those of other surfaces, such as stories every six hours, receive other items.
    syncs = [
        row["seq"] for row in await warehouse.read_state(read_runs)
        if row["kind"] == "sync" and row["state"] in done and row["selection"] == run.request.selected
    ][:_SYNCS]  # fmt: skip
    if len(syncs) < _SYNCS:
        return ()
    found = await warehouse.read(find_lone_change, syncs, accounts=run.batcher.listed)
    if found is None:
        return ()
    text = f"In each of the last {_SYNCS} syncs, {found} alone changed most items, and each of them got a new version"
    ignore = json.dumps([found], ensure_ascii=False)
    fix = f"if this is no change of an item, set ignore = {ignore} under [mapping] in gramhouse.toml"
    return [Finding("items_changed_by_one_field", Severity.WARNING, text, fix, count=_SYNCS)]
