"""`gramhouse doctor`: checks what a run needs. A check opens what a run opens, and an error of it is its result."""

import asyncio
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain

from humanize import naturalsize
from rich.table import Table

from connectors.source.messages import CATALOGUE_SCOPE, account_scope
from connectors.warehouse.maintenance.clock import find_ahead
from connectors.warehouse.publish.publish import prepare
from connectors.warehouse.queries.reader import Record, open_snapshot
from connectors.warehouse.storage.connection import explained
from connectors.warehouse.storage.files import real
from connectors.warehouse.storage.holder import holder
from connectors.warehouse.storage.identity import read_warehouse
from flows.cli.app import EXITS
from flows.cli.options import Output, current, current_snapshot
from flows.cli.terminal import DONE, FAIL, WARN, Answer, err, row
from flows.clock import SystemClock
from flows.config.environment import find_exposed_key, origin, prefect_api_url
from flows.config.errors import ExitCode, SettingsError, error_line
from flows.config.settings import Settings, load
from flows.engine.publishing import publication
from flows.engine.resources import check_clock, check_writable, explain_lone_snapshot, find_folders, make_client
from flows.engine.warehouse import open_existing_state, open_files
from flows.reporting.findings import LONG_COOLDOWN_FIX, LONG_COOLDOWN_WHY
from flows.reporting.words import count, moment, span
from models.erasure import UNFINISHED
from models.feeds import FEEDS
from models.files import WarehouseBusy, service_refusal
from models.runs import LONG_COOLDOWN, OutcomeKind

_MARKS = {"ok": DONE, "note": WARN, "bad": FAIL}

# Checks of what the user has set, and of what a Prefect block has.
_USAGE, _OF_BLOCK = {"configuration", "address", "key"}, {"address", "key", "API"}

# Free bytes that a run needs beside a copy of the warehouse.
_ROOM = 100_000_000

# A verdict, and a message with the fix.
_Results = Iterable[tuple[str, str]]


def check_line(result: Record) -> Table:
    """Return a result of `find` as a line of the terminal."""
    return row(_MARKS[result["verdict"]], f"[bold]{result['check']}[/]", text=result["message"])


def _address(settings: Settings, _: datetime) -> _Results:
    address, network = settings.address(), settings.network()
    yield "ok", f"{address} through the proxy {network.proxy}" if network.proxy else address
    if network.certificates is not None:
        yield "ok", f"trusts the certificates of {network.variables}, not the public ones"


def _key(settings: Settings, _: datetime) -> _Results:
    settings.key()
    file = settings.api_key_file if settings.api_key is None else None
    yield "ok", f"from {file or origin('api_key')}"
    if file is not None and file.stat().st_mode & 0o077:
        yield "note", f"other users can read {file}. Fix: chmod 600 {file}."


def _api(settings: Settings, now: datetime) -> _Results:
    from connectors.state.inbox import read_cooldowns

    if current(settings).problem is not None:
        yield "note", "not checked: cooldowns are in the state, which is missing or cannot be read"
        return
    # Without the lock, so that this works while another process writes.
    with open_existing_state(settings.warehouse) as state:
        cooldowns = {} if state is None else state.read(read_cooldowns, now=now)
    if (until := cooldowns.get(CATALOGUE_SCOPE)) is not None:
        text = f"not checked: the account catalogue is rate-limited until {moment(until, seconds=True)} UTC"
        if until - now > LONG_COOLDOWN:
            yield "bad", f"{text}: {LONG_COOLDOWN_WHY}. Fix: {LONG_COOLDOWN_FIX}."
        else:
            yield "note", text
    elif writing := holder(settings.warehouse):
        # It would not know of a wait that an answer asks for.
        yield "note", f"not checked: {writing} is running"
    else:
        yield from asyncio.run(_request_pages(settings, cooldowns))


async def _request_pages(settings: Settings, cooldowns: Collection[str]) -> _Results:
    """Request a page of accounts and one of media, once each; store the wait that a refusal asks for."""
    from connectors.source.errors import ApiError, Disposition
    from connectors.source.messages import accounts_request, feed_request
    from flows.engine.upkeep import keep_cooldown

    found, request = list[tuple[str, str]](), accounts_request(None, 50)
    try:
        async with make_client(settings, SystemClock()) as client:
            response = await client.send(request)
            accounts = response.page.accounts
            some = f"{count(len(accounts), 'account')}{' or more' if response.page.next_cursor else ''}"
            found.append(("ok", f"answers, and the key reaches {some} (correlation id {response.correlation_id})"))
            for account in accounts:
                if account.status == "active" and account_scope(account.id) not in cooldowns:
                    request = feed_request(next(iter(FEEDS.values())), account.id, None, 1)
                    await client.send(request)
                    return [*found, ("ok", f"the key can list media (checked with {account.ig_username})")]
            why = "no account on the first page has a valid token and no cooldown"
            return [*found, ("note", f"media not checked: {why}")]
    except ApiError as error:
        wait = error.retry_after or 60
        if error.rule.disposition is not Disposition.WAIT:
            # An account that is gone is no problem of the key.
            is_gone = found and error.rule.outcome is OutcomeKind.NOT_FOUND
            return [*found, ("note" if is_gone else "bad", f"{error}. Fix: {error.rule.hint}.")]
        is_kept = error.retry_after and keep_cooldown(settings, request.scope, wait)
        fix = f"Fix: wait {span(wait)} before you sync: that could not be stored."
        return [*found, ("note", f"{error}. {f'Syncs wait for {span(wait)}, too' if is_kept else fix}")]


def _disk(settings: Settings, _: datetime) -> _Results:
    warehouse = real(settings.warehouse)
    size = warehouse.stat().st_size if warehouse.exists() else 0
    # The first folder on each disk.
    folders = [*find_folders(settings).values()]
    for folder in {each.stat().st_dev: each for each in reversed(folders)}.values():
        free = shutil.disk_usage(folder).free
        text = f"{naturalsize(free)} are free in {folder}"
        if free < size + _ROOM:
            yield "bad", f"{text}; a snapshot is a copy of the warehouse ({naturalsize(size)}). Fix: free space."
        else:
            yield "ok", text


def _configuration(settings: Settings, _: datetime) -> _Results:
    if warning := find_exposed_key():
        yield "note", warning
    check_writable(settings)


def _warehouse(settings: Settings, now: datetime) -> _Results:
    """Open the files as a run does, which merges pages that a killed run left; read every byte of the raw store."""
    from connectors.state.identity import read_erasure, read_identity
    from connectors.warehouse.raw.parts import find_parts, read_part

    file = settings.warehouse
    if not file.exists():
        why = explain_lone_snapshot(settings)
        yield ("bad", why) if why else ("note", f"{file} does not exist yet: the first sync creates it")
        return
    with open_files(settings, "gramhouse doctor", now=now) as files, explained(file):
        state, db = files.state, files.db
        state.read(check_clock, now=now)
        if state.read(read_erasure).accounts:
            yield "bad", UNFINISHED
        if ahead := find_ahead(db, now=now):
            text = f"{ahead.count:,} times stored in {file} lie in the future, up to {moment(ahead.last)} UTC"
            fix = "check this machine's clock, then run `gramhouse doctor --repair`, which moves them to now"
            yield "bad", f"{text}. Fix: {fix}."
        service = state.read(read_identity).base_url
        if settings.base_url and (refusal := service_refusal(service, settings.base_url)):
            yield "bad", refusal
        prepare(db, settings.snapshot_file(), publication(files, settings, at=now))
        parts = find_parts(files.raw, merged_seq=read_warehouse(db).merged_seq)
    # Without the lock, because it takes long for a large store. Parts do not change.
    for part in parts.values():
        read_part(part)
    yield "ok", f"{file} opens ({naturalsize(file.stat().st_size)}){f'; filled from {service}' if service else ''}"


def _snapshot(settings: Settings, _: datetime) -> _Results:
    if (url := settings.snapshot_url()) is not None and settings.warehouse.exists():
        from connectors.buckets import SnapshotBucket

        asyncio.run(SnapshotBucket(url).check())
        yield "ok", f"{url} can be written"
    file = current_snapshot(settings)
    if not file.exists():
        yield "note", f"{file} does not exist: a sync publishes it"
        return
    with open_snapshot(file) as snapshot:
        [published] = snapshot.query("SELECT snapshot_at FROM published")
    yield "ok", f"{file} was published at {moment(published['snapshot_at'])} UTC"


def _prefect(_settings: Settings, _now: datetime) -> _Results:
    if (url := prefect_api_url()) is None:
        yield "note", "PREFECT_API_URL is not set: syncs run directly, without Prefect"
        return
    from flows.orchestration.processes import import_prefect

    import_prefect({})
    from flows.orchestration.flow_run import check_tracker

    asyncio.run(check_tracker())
    yield "ok", f"{url} answers"


def _schedules(settings: Settings, now: datetime) -> _Results:
    up = holder(settings.prefect_home / "up")
    who = f"{up} runs" if up else "`gramhouse up` is not running on this machine; it would run"
    what = {"nightly": "the next nightly sync", "due": "the next sync of what is due"}
    runs = [f"{what[name]} at {moment(at)} {settings.time_zone}" for name, at in settings.next_runs(now).items()]
    yield "ok", f"{who} {', and '.join(runs) or 'no sync: GRAMHOUSE_NIGHTLY and GRAMHOUSE_DUE are off'}"


# In the order in which they are shown.
_CHECKS: Mapping[str, Callable[[Settings, datetime], _Results]] = {
    "address": _address,
    "key": _key,
    "API": _api,
    "disk": _disk,
    "configuration": _configuration,
    "warehouse": _warehouse,
    "snapshot": _snapshot,
    "Prefect": _prefect,
    "schedules": _schedules,
}


def find(settings: Settings, checks: Sequence[str] = (*_CHECKS,)) -> Iterator[Record]:
    """Yield the results of these checks: `check`, `verdict` (ok, note or bad), `message`, and `fix`, its end.

    Address, key and API are not checked if a Prefect block has them, which tracked runs use even if others are set.
    """
    now, block = SystemClock().now(), settings.credentials
    if block is not None:
        settings = settings.model_copy(update={"base_url": None})
    for name in checks:
        try:
            if block is not None and name in _OF_BLOCK:
                yield _result(name, "note", f"not checked: it is that of the Prefect block {block}")
            else:
                yield from (_result(name, *each) for each in _CHECKS[name](settings, now))
        except WarehouseBusy as error:
            yield _result(name, "note", str(error))
        except tuple(chain(*EXITS.values())) as error:
            yield _result(name, "bad", error_line(error))


def _result(check: str, verdict: str, message: str) -> Record:
    fix = message.partition(" Fix: ")[2].rstrip(".") or None
    return {"check": check, "verdict": verdict, "message": message, "fix": fix}


def _repair(settings: Settings, *, lift: bool) -> str:
    """Move times in the future to now; with `lift`, let long cooldowns end."""
    from flows.engine.upkeep import repair_now

    moved = repair_now(settings, lift=lift)
    text = "no stored time lies in the future: nothing to repair"
    if moved:
        what = f"{count(moved.count, 'time')} in the future, up to {moment(moved.last)} UTC"
        text = f"moved back {what}, to now; cooldowns among them start now"
    return f"{text}; no cooldown of more than a day is left" if lift else text


def doctor(*, repair: bool = False, yes: bool = False, output: Output = Output()) -> Answer:
    """Check configuration, API, warehouse, snapshot, Prefect: one line each.

    Exit codes: 0 all checks passed and --repair, if given, succeeded; 1 a check failed; 2 wrong usage or configuration;
    4 --repair found the warehouse held by another process.

    Args:
        repair: First move stored times that are in the future to now, and restart the cooldowns that depend on them.
        yes: With --repair, also lift cooldowns of more than a day.
    """
    settings = load()
    if yes and not repair:
        raise SettingsError("--yes is an answer to --repair. Fix: use both, or leave it out.")
    found = [_result("repair", "ok", _repair(settings, lift=yes))] if repair else []
    with err.status("[dim]checking …[/]"):
        found += find(settings)
    failed = {each["check"] for each in found if each["verdict"] == "bad"}
    code = ExitCode.WRONG_USAGE if failed & _USAGE else ExitCode.FAILED if failed else ExitCode.COMPLETE
    return Answer({"exit_code": code, "findings": found}, map(check_line, found), code)
