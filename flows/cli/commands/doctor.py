"""`gramhouse doctor`: checks the requirements of a run one by one; each check is a function of the facts."""

import asyncio
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from humanize import naturalsize

from connectors.buckets import BucketError
from connectors.source.endpoints import CATALOGUE_SCOPE, account_scope
from connectors.warehouse.maintenance.clock import find_ahead
from connectors.warehouse.publish.publish import find_refusal
from connectors.warehouse.publish.replaceable import another_warehouse
from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.storage.connection import explained
from connectors.warehouse.storage.errors import SnapshotUnreadable, WarehouseError
from connectors.warehouse.storage.holder import holder
from connectors.warehouse.storage.identity import read_warehouse
from flows.cli.current import current_snapshot
from flows.cli.options import AsJson
from flows.cli.output.terminal import Answer, ask, check_line, describe_check, err
from flows.clock import SystemClock
from flows.config.errors import ClusterLost, SettingsError, TrackerUnreachable, error_line
from flows.config.prefect_environment import prefect_api_url
from flows.config.setting_sources import find_exposed_key, origin
from flows.config.settings import OF_SERVICE, Settings, load
from flows.engine.publishing import publication
from flows.engine.resources import check_clock, check_places, make_client, unwritable_folders
from flows.reporting.exit_code import ExitCode
from flows.reporting.findings import LONG_COOLDOWN_FIX, LONG_COOLDOWN_WHY
from flows.reporting.words import count, moment, span
from models.clock import Ahead
from models.erasure import OPERATION, UNFINISHED
from models.feeds import FEEDS
from models.findings import Finding, Severity, several
from models.identity import NEW, Identity, service_refusal
from models.runs import LONG_COOLDOWN

if TYPE_CHECKING:
    from connectors.source.errors import ApiError

_VERDICTS = {Severity.INFORMATION: "ok", Severity.WARNING: "note", Severity.ACTION: "bad"}

# Checks of what the user has set.
_USAGE = {"configuration", "address", "key"}

# Free bytes that a run needs beside a copy of the warehouse.
_ROOM = 100_000_000


def _finding(severity: Severity, message: str) -> Finding:
    """Return the finding of a message of one line; its code is set when it is known which check it is of."""
    text, _, fix = message.partition(" Fix: ")
    return Finding("", severity, text.rstrip("."), fix.rstrip("."))


ok, note, bad = (partial(_finding, each) for each in (Severity.INFORMATION, Severity.WARNING, Severity.ACTION))


@dataclass(frozen=True, slots=True)
class Facts:
    """What the checks judge: the settings, and what the warehouse and the state say, or the error in opening them.

    `ahead` are stored times in the future, `refused` is why the data would not be published, `service` the address that
    the warehouse was filled from. `cooldowns` has the end of each scope's wait.
    """

    settings: Settings
    now: datetime
    ahead: Ahead | None = None
    refused: str | None = None
    service: str | None = None
    cooldowns: Mapping[str, datetime] = field(default_factory=dict)
    is_erasing: bool = False
    problem: Exception | None = None

    def long_cooldown(self) -> tuple[datetime, str] | None:
        """Return the end of the long cooldowns, and whose they are until when, as text; None if there are none."""
        long = {scope: until for scope, until in sorted(self.cooldowns.items()) if until - self.now > LONG_COOLDOWN}
        names = several([scope.partition(":")[2] or "the account catalogue" for scope in long])
        last = max(long.values(), default=self.now)
        return (last, f"{names} until {moment(last, seconds=True)} UTC") if long else None


def read_facts(settings: Settings, now: datetime, *, is_whole: bool = False) -> Facts:
    """Open the files as a run does; with `is_whole`, read every byte of the raw store, too.

    That they do not belong together, or that the clock is behind, is a problem, too.
    """
    from connectors.state.identity import read_identity, read_operations, read_service
    from connectors.state.progress import read_cooldowns
    from connectors.warehouse.raw.parts import find_parts, read_part
    from flows.engine.files import check_pair, open_existing_state, open_files

    try:
        if not settings.warehouse.exists():
            with open_existing_state(settings.warehouse) as state:
                if state is not None:
                    check_pair(state.path, state.read(read_identity), settings.warehouse, Identity(NEW, 0))
            return Facts(settings, now)
        with open_files(settings, "gramhouse doctor", now=now) as files, explained(files.path):
            state, db = files.state, files.db
            state.read(check_clock, now=now)
            refused = find_refusal(db, settings.snapshot_file(), publication(settings, at=now))
            of_state = state.read(read_service), state.read(read_cooldowns, now=now)
            is_erasing = OPERATION in state.read(read_operations)
            facts = Facts(settings, now, find_ahead(db, now=now), refused, *of_state, is_erasing)
            parts = find_parts(files.raw, merged_seq=read_warehouse(db).merged_seq) if is_whole else ()
        # Without the lock, because it takes long for a large store. Parts do not change.
        for part in parts:
            read_part(part)
    except (WarehouseError, OSError) as error:
        return Facts(settings, now, problem=error)
    return facts


def _is_of_block(settings: Settings, *names: str) -> bool:
    """Return whether none of these settings is set, but a block that has them."""
    return settings.credentials is not None and all(getattr(settings, name) is None for name in names)


def _address(facts: Facts) -> Iterator[Finding]:
    if _is_of_block(facts.settings, "base_url"):
        yield note(f"not checked: it is that of the Prefect block {facts.settings.credentials}")
        return
    address, network = facts.settings.address(), facts.settings.network()
    yield ok(f"{address} through the proxy {network.proxy}" if network.proxy else address)
    if network.certificates is not None:
        yield ok(f"trusts the certificates of {network.variables}, not the public ones")


def _key(facts: Facts) -> Iterator[Finding]:
    settings, file = facts.settings, facts.settings.api_key_file
    if _is_of_block(settings, "api_key", "api_key_file"):
        yield note(f"not checked: it is that of the Prefect block {settings.credentials}")
        return
    settings.key()
    yield ok(f"from {file if settings.api_key is None else origin('api_key')}")
    if settings.api_key is None and file and file.stat().st_mode & 0o077:
        yield note(f"other users can read {file}. Fix: chmod 600 {file}.")


def _api(facts: Facts) -> Iterator[Finding]:
    if facts.problem is not None:
        yield note("not checked: cooldowns are in the warehouse, which cannot be read; see below")
        return
    try:
        facts.settings.address(), facts.settings.key(), facts.settings.network()
    except SettingsError:
        yield note("not checked: see address and key above")
        return
    if (long := facts.long_cooldown()) is not None:
        text = f"no requests for {long[1]}: {LONG_COOLDOWN_WHY}. Fix: {LONG_COOLDOWN_FIX}."
        yield replace(bad(text), code="cooldown")
    if until := facts.cooldowns.get(CATALOGUE_SCOPE):
        yield note(f"not checked: the account catalogue is rate-limited until {moment(until, seconds=True)} UTC")
    else:
        yield from asyncio.run(_request_pages(facts))


async def _request_pages(facts: Facts) -> list[Finding]:
    """Request a page of accounts and one of media, once each; store the wait that a refusal asks for."""
    from connectors.source.endpoints import accounts_request, feed_request
    from connectors.source.errors import ApiError

    settings, found, request = facts.settings, list[Finding](), accounts_request(None, 50)
    try:
        async with make_client(settings, SystemClock()) as client:
            response = await client.send(request)
            accounts = response.page.accounts
            some = f"{count(len(accounts), 'account')}{' or more' if response.page.next_cursor else ''}"
            found.append(ok(f"answers, and the key reaches {some} (correlation id {response.correlation_id})"))
            free = (each for each in accounts if account_scope(each.id) not in facts.cooldowns)
            if (account := next((each for each in free if each.status == "active"), None)) is not None:
                request = feed_request(next(iter(FEEDS.values())), account.id, None, 1)
                await client.send(request)
                last = ok(f"the key can list media (checked with {account.ig_username})")
            else:
                last = note("not checked: no account on the first page has a valid token and no cooldown")
    except ApiError as error:
        last = _refused(facts, request.scope, error)
    # The media are checked once the accounts are known.
    return [*found, replace(last, code="media") if found else last]


def _refused(facts: Facts, scope: str, error: "ApiError") -> Finding:
    """Return what a request that failed means; the wait that it asks for is stored."""
    from connectors.source.errors import Disposition
    from flows.engine.upkeep import keep_cooldown

    seconds, settings = error.retry_after, facts.settings
    if error.failure.disposition is not Disposition.WAIT:
        # An account that is gone is no problem of the key.
        is_gone = error.failure.outcome == "not_found" and scope != CATALOGUE_SCOPE
        return (note if is_gone else bad)(f"{error}. Fix: {error.failure.hint}")
    if seconds is None:
        return note(f"{error}. Rate-limited; not retried")
    text = f"{error}. Rate-limited for {span(seconds)}; not retried"
    is_ours = settings.warehouse.exists() and service_refusal(facts.service, settings.address()) is None
    if is_ours and keep_cooldown(settings, scope, seconds):
        return note(f"{text}. Syncs wait as long")
    return note(f"{text}. Fix: wait as long before you sync: this wait could not be stored.")


def _disk(facts: Facts) -> Iterator[Finding]:
    file = facts.settings.warehouse.absolute()
    folder = next(each for each in file.parents if each.exists())
    free, size = shutil.disk_usage(folder).free, file.stat().st_size if file.exists() else 0
    text = f"{naturalsize(free)} are free in {folder}"
    if free < size + _ROOM:
        yield bad(f"{text}; a snapshot is a copy of the warehouse ({naturalsize(size)}). Fix: free space.")
    else:
        yield ok(text)


def _configuration(facts: Facts) -> Iterator[Finding]:
    if warning := find_exposed_key():
        yield note(warning)
    check_places(facts.settings)
    yield from map(bad, unwritable_folders(facts.settings))


def _warehouse(facts: Facts) -> Iterator[Finding]:
    settings, file = facts.settings, facts.settings.warehouse
    refusal = service_refusal(facts.service, settings.base_url) if settings.base_url else None
    if writing := holder(file):
        yield note(f"{file} is locked by {writing}; a sync would wait or exit with code 4")
    elif not file.exists() and settings.snapshot_url() is None and settings.snapshot_file().exists():
        yield bad(f"{file} does not exist yet, so {another_warehouse(settings.snapshot)}")
    elif not file.exists():
        yield note(f"{file} does not exist yet: the first sync creates it")
    elif facts.problem is not None:
        raise facts.problem
    elif facts.is_erasing:
        yield bad(UNFINISHED)
    elif ahead := facts.ahead:
        text = f"{ahead.count:,} times stored in {file} lie in the future, up to {moment(ahead.last)} UTC"
        fix = "check this machine's clock, then run `gramhouse doctor --repair`, which moves them to now"
        yield bad(f"{text}. Fix: {fix}.")
    elif refusal:
        yield bad(refusal)
    elif facts.refused is not None:
        yield bad(f"its data cannot be published: {facts.refused}")
    else:
        bound = f"; filled from {facts.service}" if facts.service else ""
        yield ok(f"{file} opens ({naturalsize(file.stat().st_size)}){bound}")


def _bucket(facts: Facts) -> Iterator[Finding]:
    if (url := facts.settings.snapshot_url()) is None:
        return
    from connectors.buckets import SnapshotBucket

    if facts.settings.warehouse.exists():
        asyncio.run(SnapshotBucket(url).check())
        yield ok(f"{url} can be written")
    else:
        yield ok(f"{url} can be read; a copy is at {current_snapshot(facts.settings)}")


def _snapshot(facts: Facts) -> Iterator[Finding]:
    at, place = None, facts.settings.snapshot_file()
    if not place.exists():
        yield note(f"{place} does not exist: a sync publishes it")
        return
    with suppress(SnapshotUnreadable), open_snapshot(place) as snapshot:
        ((at,),) = snapshot.query("SELECT max(snapshot_at) FROM published").rows
    if isinstance(at, datetime):
        yield ok(f"{place} was published at {moment(at.astimezone(UTC))} UTC")
    else:
        yield bad(f"{place} is not a gramhouse snapshot. Fix: check GRAMHOUSE_SNAPSHOT.")


def _prefect(_: Facts) -> Iterator[Finding]:
    if (url := prefect_api_url()) is None:
        yield note("PREFECT_API_URL is not set: syncs run directly, without Prefect")
        return
    from flows.orchestration.processes import import_prefect

    import_prefect({})
    from flows.orchestration.flow_run import check_tracker

    asyncio.run(check_tracker())
    yield ok(f"{url} answers")


def _schedules(facts: Facts) -> Iterator[Finding]:
    settings = facts.settings
    up = holder(settings.prefect_home / "up")
    who = f"{up} runs" if up else "`gramhouse up` is not running on this machine; it would run"
    what = {"nightly": "the next nightly sync", "due": "the next sync of what is due"}
    runs = [f"{what[name]} at {moment(at)} {settings.time_zone}" for name, at in settings.next_runs(facts.now).items()]
    yield ok(f"{who} {', and '.join(runs) or 'no sync: GRAMHOUSE_NIGHTLY and GRAMHOUSE_DUE are off'}")


# In the order in which they are shown. An error that a check raises is its finding.
_CHECKS: Mapping[str, Callable[[Facts], Iterable[Finding]]] = {
    "address": _address,
    "key": _key,
    "API": _api,
    "disk": _disk,
    "configuration": _configuration,
    "warehouse": _warehouse,
    "bucket": _bucket,
    "snapshot": _snapshot,
    "Prefect": _prefect,
    "schedules": _schedules,
}

_ERRORS = (SettingsError, WarehouseError, BucketError, TrackerUnreachable, ClusterLost, OSError)


def find(settings: Settings, checks: Sequence[str] = (*_CHECKS,)) -> Iterator[Finding]:
    """Yield the results of these checks. Their code is the name of the check, unless they have another."""
    facts = read_facts(settings, SystemClock().now(), is_whole="warehouse" in checks)
    for name in checks:
        try:
            for found in _CHECKS[name](facts):
                yield replace(found, code=found.code or name)
        except _ERRORS as error:
            yield replace(bad(error_line(error)), code=name)


def _repair(settings: Settings, lift: Callable[[str], bool]) -> Iterator[Finding]:
    """Move times in the future to now, and lift long cooldowns if `lift`, called with what they are, says so."""
    from flows.engine.upkeep import lift_now, repair_now

    if moved := asyncio.run(repair_now(settings)):
        what = f"{count(moved.count, 'time')} in the future, up to {moment(moved.last)} UTC"
        yield ok(f"moved back {what}, to now; cooldowns among them start now")
    else:
        yield ok("no stored time lies in the future: nothing to repair")
    now = datetime.now(UTC)
    if (long := read_facts(settings, now).long_cooldown()) is not None:
        what = f"the cooldown of {long[1]}"
        if lift(what):
            asyncio.run(lift_now(settings, until=long[0], now=now))
            yield ok(f"lifted {what}")
        else:
            yield note(f"kept {what}. Fix: lift it with `gramhouse doctor --repair --yes`.")


def doctor(
    *,
    repair: Annotated[
        bool,
        Parameter(
            help="First correct stored times that are in the future because the clock was ahead, and restart the"
            " cooldowns that depend on them; then offer to lift cooldowns of more than a day.",
        ),
    ] = False,
    yes: Annotated[bool, Parameter(help="With --repair, lift such cooldowns without asking.")] = False,
    as_json: AsJson = False,
) -> Answer:
    """Check configuration, API, warehouse, snapshot, Prefect: one line each.

    Exit codes: 0 all checks passed and --repair, if given, succeeded; 1 a check failed; 2 wrong usage or configuration;
    4 --repair found the warehouse held by another process.
    """
    settings = load()
    if yes and not repair:
        raise SettingsError("--yes is an answer to --repair. Fix: use both, or leave it out.")

    def lift(what: str) -> bool:
        question = f"The API asked for {what}. Lift it, so that the next sync sends requests again?"
        return yes or (not as_json and ask(question))

    found = [replace(each, code="repair") for each in (_repair(settings, lift) if repair else ())]
    if settings.credentials is not None and prefect_api_url() is not None:
        # Tracked runs use those of the block, even if others are set.
        settings = settings.model_copy(update=dict.fromkeys(OF_SERVICE))
    with err.status("[dim]checking …[/]"):
        found += find(settings)
    failed = {finding.code for finding in found if finding.severity is Severity.ACTION}
    code = ExitCode.WRONG_USAGE if failed & _USAGE else ExitCode.FAILED if failed else ExitCode.COMPLETE
    names = "check", "verdict", "message", "fix"
    rows = [(one.code, _VERDICTS[one.severity], describe_check(one), one.fix or None) for one in found]
    document = {"exit_code": code, "findings": [dict(zip(names, row, strict=True)) for row in rows]}
    return Answer(document, map(check_line, found), code, is_done=repair)
