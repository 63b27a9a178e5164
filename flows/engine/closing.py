"""Closes a run: decides removals, finds its warnings, writes its end, deletes what is old, and reports."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from connectors.state.published import read_published
from connectors.state.runs import delete_runs, read_runs, warn
from connectors.warehouse.maintenance import retention
from connectors.warehouse.merge.removals import (
    Removals,
    remove_missing,
)
from connectors.warehouse.publish.publish import bring_state
from connectors.warehouse.queries.outcomes import (
    count_outcomes,
    count_unread_values,
    find_lone_change,
    find_missing_accounts,
    read_failures,
    read_names,
    read_report,
    read_scan_findings,
)
from flows.engine.publishing import Published
from flows.engine.run import Run
from flows.engine.warehouse import Files
from flows.reporting.progress import notices
from flows.reporting.run_report import NO_DATA, RunReport, read_data
from flows.reporting.words import count, per_second
from models.files import WarehouseError, first_line
from models.runs import LANDED, Finding, OutcomeKind, RunState, Severity, run_state, several

# How long all outcomes are kept: 100,000 accounts have half a million a day, and nearly all repeat the one before.
_ALL_OUTCOMES = timedelta(days=7)


_RELEASE = "if they were really deleted, run `gramhouse sync --accept-removals`"

ACCOUNTS_MISSING = "accounts_missing"

# If the catalogue misses more than this part of the known accounts, a person should look: a key with fewer grants looks
# the same.
_ACCOUNTS_LIMIT = 0.1

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


def close_run(run: Run) -> None:
    """Decide removals, write the end of a run to the state, and delete old rows. All pages must be merged.

    Every partition has its outcome. Raises ValueError if one has two.
    """
    files, options = run.files, run.request.options
    outcomes = files.query(count_outcomes, run.run_id)
    [row] = files.state.read(read_runs, limit=1)
    removals = remove_missing(files.db, row["seq"], run.run_id, accept_removals=options.accept_removals)
    warnings = find_warnings(run, outcomes, removals)
    files.state.write(warn, run.run_id, warnings)
    groups = files.query(read_failures, run.run_id, now=run.began_at)
    # Why it is not complete.
    causes = [(run.stopped_by.code, run.stopped_by.message)] if run.stopped_by else []
    causes += [(group.error_code, group.detail) for group in groups]
    causes += [(each.code, each.text) for each in warnings if each.severity is Severity.ACTION]
    error_code, detail = next(iter(causes), (None, None))
    run.end(
        run_state(
            outcomes,
            stopped=run.stopped_by is not None,
            landed=any(group.error_code in LANDED for group in groups),
            warnings=warnings,
        ),
        error_code=error_code,
        detail=detail,
        accounts_missing=sum(warning.count for warning in warnings if warning.code == ACCOUNTS_MISSING),
        partitions=outcomes.total(),
    )
    delete_old(files, timedelta(days=run.request.settings.keep_runs), now=run.clock.now())


def delete_old(files: Files, keep: timedelta, *, now: datetime) -> None:
    """Bring the state's runs to the warehouse, and delete old ones and quarantined records.

    Ages are counted from the time on which the last runs agree.
    """
    files.query(bring_state, files.state.read(read_published))
    now = files.query(retention.find_agreed_time, now=now)
    repeated_before = now - min(keep, _ALL_OUTCOMES)
    gone = files.query(retention.delete_old, before=now - keep, repeated_before=repeated_before)
    files.state.write(delete_runs, gone)


def report_run(run: Run, published: Published) -> RunReport:
    """Return the report of a run that was closed and published."""
    files, settings, now, data = run.files, run.request.settings, run.clock.now(), NO_DATA
    try:
        data = read_data(settings.snapshot_file(), [run.run_id, *run.resumed], now=now)
    except WarehouseError as error:
        # For example, another program has opened it for writing since.
        notices.warning(f"The snapshot that was published cannot be read: {first_line(error)}")
    return RunReport(
        **files.query(read_report, run.run_id, resumed=run.resumed, now=now),
        data=data,
        resumed_runs=run.resumed,
        stopped_by=run.stopped_by,
        restarted=run.progress.restarted,
        mapping_pending=files.mapping != settings.media_mapping(),
        snapshot=settings.snapshot_file(),
        snapshot_url=settings.snapshot_url(),
        snapshot_bytes=published.snapshot_bytes,
        report=published.report,
        seconds=(now - run.began_at).total_seconds(),
    )


def find_warnings(run: Run, outcomes: Counter[OutcomeKind], removals: Removals) -> Sequence[Finding]:
    """Return the warnings of a run, after its last merge: those that need a person first."""
    found = [*_limited(run), *_items_missing(run, removals), *_records(run)]
    if run.request.options.kind == "sync":
        found += [*_accounts_missing(run.files.query(find_missing_accounts), removals), *_changed_by_one_field(run)]
    elif outcomes[OutcomeKind.SKIPPED] == outcomes.total():
        accounts = run.progress.accounts
        which = "the account has expired" if accounts == 1 else "all chosen accounts have expired"
        text = f"Nothing was scanned: the token of {which}"
        fix = "the owner must renew it first, or set GRAMHOUSE_SCAN_EXPIRED=true"
        found.append(Finding("nothing_scanned", Severity.ACTION, text, fix, count=accounts))
    return sorted(found, key=lambda each: (each.severity is not Severity.ACTION, each.code))


def _limited(run: Run) -> Iterator[Finding]:
    """Yield a warning if the service limited all requests."""
    allowed, fixed = run.dispatcher.rate.allowed, run.request.settings.requests_per_second
    if allowed is None:
        return
    severity, kept, fix = Severity.INFORMATION, "; pace kept", ""
    if fixed is not None:
        severity, kept = Severity.WARNING, f", and GRAMHOUSE_REQUESTS_PER_SECOND is {fixed:g}"
        fix = "lower the setting, or remove it, so that runs find out what it allows"
    text = f"The service allows {per_second(allowed)}{kept} ({count(run.progress.refused, 'request')} refused)"
    yield Finding("requests_per_second", severity, text, fix, count=round(allowed))


def _items_missing(run: Run, removals: Removals) -> Iterator[Finding]:
    """Yield a warning about missing items that are too many to be removed."""
    names = run.files.query(read_names, removals.accounts_with_too_many)
    if removals.too_many_items or names:
        # Too many of all are those of other accounts, too.
        names = () if removals.too_many_items else names
        text = (
            f"{count(removals.missing_items, 'media item')} missing from the lists of their accounts"
            f"{f' ({several(names)})' if names else ''}, and not marked as removed yet: so many are only marked as"
            " removed by a person"
        )
        when = "an hour after they were missed first, or later; it accepts missing accounts, too"
        fix = f"check that the service shows them; {_RELEASE} {when}"
        yield Finding("items_missing", Severity.ACTION, text, fix, count=removals.missing_items)


def _records(run: Run) -> Iterator[Finding]:
    """Yield warnings about records that contradict each other, and values that are not of their column's type."""
    for kind, accounts in run.files.query(read_scan_findings).items():
        code, text, fix = _CONTRADICTIONS[kind]
        what = f"{count(len(accounts), 'account')} ({several(accounts)})"
        yield Finding(code, Severity.ACTION, text.format(what=what), fix, count=len(accounts))
    if lost := run.files.query(count_unread_values, run.files.mapping):
        named = ", ".join(f"{name} ({items:,})" for name, items in sorted(lost.items(), key=lambda each: -each[1]))
        text = f"Values of media items that could not be converted to their column's type and are NULL: {named}"
        fix = "set a path to the value under [mapping] in gramhouse.toml, then run `gramhouse rebuild`"
        yield Finding("values_not_cast", Severity.WARNING, text, fix, count=sum(lost.values()))


def _accounts_missing(found: Mapping[str, Any], removals: Removals) -> Iterator[Finding]:
    """Yield warnings about accounts that are not in the catalogue: those marked as removed, and those not yet.

    The latter make the run partial if they are more than a tenth, or if the catalogue did not decide about them.
    """
    if gone := removals.removed_accounts:
        text = f"{count(gone, 'account')} marked as removed: no longer in the catalogue"
        yield Finding("accounts_removed", Severity.INFORMATION, text, count=gone)
    if not (found["missing"] or found["is_empty"]):
        return
    then = "a sync at least 12 hours later may do so"
    if removals.too_many_accounts:
        then = "so many are only marked as removed by a person"
    text = "The catalogue is empty: the API key reaches no account"
    if missing := found["missing"]:
        which = f"{missing:,} of {found['known']:,} known accounts ({several(found['names'])})"
        verb = "is" if missing == 1 else "are"
        text = f"{which} {verb} missing from the catalogue, and not marked as removed yet: {then}"
    is_serious = found["is_empty"] or found["undecided"] > 0 or missing > _ACCOUNTS_LIMIT * found["known"]
    severity = Severity.ACTION if is_serious else Severity.WARNING
    fix = f"check which accounts the API key can access, and the address; {_RELEASE}"
    yield Finding(ACCOUNTS_MISSING, severity, text, fix, count=missing)


def _changed_by_one_field(run: Run) -> Iterator[Finding]:
    """Yield a warning that names what alone changed most items in the last syncs of these surfaces."""
    done = (RunState.RUNNING, RunState.COMPLETE, RunState.PARTIAL)
    # Those of other surfaces, such as stories every six hours, receive other items.
    syncs = [
        row["seq"] for row in run.files.state.read(read_runs)
        if row["kind"] == "sync" and row["state"] in done and row["selection"] == run.request.selected
    ][:_SYNCS]  # fmt: skip
    if len(syncs) < _SYNCS:
        return
    if (found := run.files.query(find_lone_change, syncs, accounts=run.progress.accounts)) is not None:
        what = f"{found} alone changed most items, and each of them got a new version"
        mapped = next((one.paths for one in run.files.mapping.columns if one.column == found), None)
        ignore = json.dumps(mapped or [found], ensure_ascii=False)
        fix = f"if this is no change of an item, set ignore = {ignore} under [mapping] in gramhouse.toml"
        text = f"In each of the last {_SYNCS} syncs, {what}"
        yield Finding("items_changed_by_one_field", Severity.WARNING, text, fix, count=_SYNCS)
