"""`gramhouse doctor`: checks the requirements of a run one by one, with a hint for each."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Annotated

import typer
from humanize import naturalsize
from pydantic import SecretStr

from connectors.source.base_url import normalized
from connectors.source.endpoints import CATALOGUE_SCOPE, account_scope
from connectors.source.network import Network
from connectors.warehouse.runs.service import service_refusal
from connectors.warehouse.snapshot.reader import open_snapshot
from connectors.warehouse.storage.errors import QueryError, WarehouseError
from connectors.warehouse.storage.holder import holder
from flows.cli.options import AsJson
from flows.cli.output.terminal import DONE, FAIL, WARN, clean, out, print_json
from flows.clock import SystemClock
from flows.config.errors import SettingsError, TrackerUnreachable
from flows.config.setting_sources import PREFIX
from flows.config.settings import Settings, exposed, load, prefect_api_url, set_by
from flows.engine.resources import check_place, check_report
from flows.reporting.cooldowns import Cooldowns, read_cooldowns
from flows.reporting.exit_code import ExitCode
from flows.reporting.findings import LONG_COOLDOWN_FIX, LONG_COOLDOWN_WHY
from flows.reporting.schedules import fires, gap_warning
from flows.reporting.words import count, moment, several, span
from models.api import AccountPage
from models.feeds import FEEDS
from models.runs import LONG_COOLDOWN

_MARKS = {"ok": DONE, "note": WARN, "bad": FAIL}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: `verdict` is ok, note or bad; if it is bad, `message` contains the fix."""

    check: str
    verdict: str
    message: str


def _configuration(settings: Settings) -> Iterator[Finding]:
    try:
        yield Finding("address", "ok", settings.address())
    except SettingsError as error:
        yield Finding("address", "bad", str(error))
    try:
        settings.key()
        where = set_by("api_key") if settings.api_key is not None else f"{settings.api_key_file}"
        yield Finding("key", "ok", f"from {where}")
        if settings.api_key is None and settings.api_key_file and settings.api_key_file.stat().st_mode & 0o077:
            yield Finding(
                "key", "note", f"other users can read {settings.api_key_file}. Fix: chmod 600 {settings.api_key_file}."
            )
    except SettingsError as error:
        yield Finding("key", "bad", str(error))
    if settings.base_url is not None:
        yield from _network(settings)
    if warning := exposed():
        yield Finding("configuration", "note", warning)


def _network(settings: Settings) -> Iterator[Finding]:
    try:
        network = settings.network()
    except SettingsError as error:
        yield Finding("network", "bad", str(error))
        return
    if network.proxy is not None:
        yield Finding("network", "ok", f"through the proxy {network.proxy.server} ({network.proxy.variable})")
    if network.certificates is not None:
        yield Finding("network", "ok", f"trusts the certificates of {network.variables}, not the public ones")


def _cooldowns(settings: Settings, now: datetime) -> Cooldowns:
    with ExitStack() as opened:
        try:
            snapshot = opened.enter_context(open_snapshot(settings.snapshot_file()))
        except WarehouseError:
            snapshot = None
        try:
            return read_cooldowns(settings, "gramhouse doctor", snapshot, now=now)
        except QueryError:
            # Problems of the snapshot are a separate finding.
            return Cooldowns()


def _long(cooldowns: Cooldowns, now: datetime) -> dict[str, datetime]:
    """Return the long cooldowns by account."""
    return {
        scope.partition(":")[2] or "the account catalogue": until
        for scope, until in sorted(cooldowns.until.items())
        if until - now > LONG_COOLDOWN
    }


def _api(settings: Settings, now: datetime) -> Iterator[Finding]:
    """Request one page of accounts and one of media, once each, except during a cooldown."""
    cooldowns = _cooldowns(settings, now)
    if long := _long(cooldowns, now):
        until = moment(max(long.values()), seconds=True)
        text = (
            f"no requests for {several(list(long))} until {until} UTC: {LONG_COOLDOWN_WHY}. Fix: {LONG_COOLDOWN_FIX}."
        )
        yield Finding("cooldown", "bad", f"{text}{cooldowns.caveat}")
    try:
        address, key, network = settings.address(), settings.key(), settings.network()
    except SettingsError:
        yield Finding("API", "note", "not checked: see address, key and network above.")
        return
    if CATALOGUE_SCOPE in cooldowns.until:
        until = moment(cooldowns.until[CATALOGUE_SCOPE], seconds=True)
        yield Finding(
            "API", "note", f"not checked: the account catalogue is rate-limited until {until} UTC.{cooldowns.caveat}"
        )
        return
    yield from asyncio.run(_asked(address, key, network, cooldowns))


async def _asked(address: str, key: SecretStr, network: Network, cooldowns: Cooldowns) -> list[Finding]:
    from connectors.source.client import ApiClient
    from connectors.source.endpoints import accounts_request, feed_request
    from connectors.source.errors import ApiError, Disposition

    def refused(check: str, error: ApiError) -> Finding:
        if error.disposition is Disposition.WAIT:
            wait = f" for {span(error.retry_after)}" if error.retry_after else ""
            return Finding(check, "note", f"{error}. Rate-limited{wait}; not retried.")
        # An account that no longer exists is not a problem of the key.
        verdict = "note" if error.outcome == "not_found" else "bad"
        return Finding(check, verdict, f"{error}. Fix: {error.hint}.")

    client = ApiClient(address, key, clock=SystemClock(), certificates=network.certificates, proxy=network.proxy)
    async with client:
        try:
            response = await client.send(accounts_request(None, 50))
        except ApiError as error:
            return [refused("API", error)]
        page = response.page
        accounts = page.accounts if isinstance(page, AccountPage) else ()
        some = f"{count(len(accounts), 'account')}{' or more' if page.next_cursor else ''}"
        found = [
            Finding("API", "ok", f"answers, and the key reaches {some} (correlation id {response.correlation_id})")
        ]
        if page.rejected:
            text = f"{len(page.rejected)} of {count(page.items, 'record')} on the first page are malformed"
            fix = "contact the service's support; `gramhouse quarantine` shows them after a sync"
            verdict = "bad" if 2 * len(page.rejected) > page.items else "note"
            found.append(Finding("accounts", verdict, f"{text}: {page.rejected[0].reason}. Fix: {fix}."))
        asked = next(
            (one for one in accounts if one.status == "active" and account_scope(one.id) not in cooldowns.until), None
        )
        if asked is None:
            why = "no account on the first page has a valid token and no cooldown"
            return [*found, Finding("media", "note", f"not checked: {why}.{cooldowns.caveat}")]
        try:
            await client.send(feed_request(next(iter(FEEDS.values())), asked.id, None, 1))
        except ApiError as error:
            return [*found, refused("media", error)]
        return [*found, Finding("media", "ok", f"the key can list media (checked with {asked.ig_username})")]


def _folder(settings: Settings) -> Iterator[Finding]:
    folders = [
        ("warehouse", settings.warehouse.parent),
        ("snapshot", settings.snapshot_file().parent),
        ("raw", settings.raw_folder()),
    ]
    for name, wanted in folders:
        folder = next(there for there in (wanted, *wanted.parents) if there.exists())
        if not folder.is_dir():
            yield Finding(name, "bad", f"{folder} is not a folder. Fix: set {PREFIX}{name.upper()} to another path.")
        elif not os.access(folder, os.W_OK | os.X_OK):
            hint = (
                f"{folder} is not writable. Fix: change its permissions, or set {PREFIX}{name.upper()} to another path."
            )
            yield Finding(name, "bad", hint)
    try:
        check_report(settings)
        check_place(settings.snapshot_file(), settings.warehouse)
    except (SettingsError, WarehouseError) as error:
        yield Finding("configuration", "bad", str(error))


def _warehouse(settings: Settings) -> Finding:
    writing = holder(settings.warehouse)
    if writing:
        return Finding(
            "warehouse", "note", f"{settings.warehouse} is locked by {writing}; a sync would exit with code 4."
        )
    if not settings.warehouse.exists():
        return Finding("warehouse", "note", f"{settings.warehouse} does not exist yet: the first sync creates it.")
    from connectors.warehouse.maintenance.inspection import inspect

    now = SystemClock().now()
    since = now.isoformat(timespec="seconds")
    try:
        raw = settings.raw_folder()
        found = inspect(settings.warehouse, "gramhouse doctor", now=now, since=since, pause=time.sleep, raw=raw)
    except WarehouseError as error:
        return Finding("warehouse", "bad", str(error))
    if found and (ahead := found.ahead):
        return Finding(
            "warehouse",
            "bad",
            f"{ahead.count:,} times stored in {settings.warehouse} lie in the future, up to"
            f" {ahead.last:%Y-%m-%d %H:%M} UTC."
            " Fix: check this machine's clock; the next sync moves them back, and so does `gramhouse doctor --repair`.",
        )
    if found and settings.base_url and (refusal := service_refusal(found.base_url, normalized(settings.base_url))):
        return Finding("warehouse", "bad", refusal)
    size = naturalsize(settings.warehouse.stat().st_size)
    bound = f"; filled from {found.base_url}" if found and found.base_url else ""
    return Finding("warehouse", "ok", f"{settings.warehouse} opens ({size}){bound}")


def _bucket(settings: Settings) -> Iterator[Finding]:
    from connectors.buckets.address import BucketError
    from flows.cli.snapshot_download import current_snapshot

    url = settings.snapshot_url()
    if url is None:
        return
    from connectors.buckets.snapshot_bucket import open_snapshot_bucket

    try:
        bucket = open_snapshot_bucket(url)
        if settings.warehouse.exists():
            asyncio.run(bucket.check())
            yield Finding("bucket", "ok", f"{url} can be written")
        elif asyncio.run(bucket.pointer()) is not None:
            yield Finding("bucket", "ok", f"{url} can be read; a copy is at {current_snapshot(settings)}")
    except BucketError as error:
        yield Finding("bucket", "bad", str(error))


def _snapshot(settings: Settings) -> Finding:
    if not settings.snapshot_file().exists():
        return Finding("snapshot", "note", f"{settings.snapshot} does not exist yet: the first sync publishes it.")
    try:
        with open_snapshot(settings.snapshot_file()) as snapshot:
            (at,) = snapshot.query("SELECT max(snapshot_at) FROM published").rows[0]
    except WarehouseError as error:
        return Finding("snapshot", "bad", str(error))
    except QueryError:
        at = None
    if not isinstance(at, datetime):
        return Finding(
            "snapshot", "bad", f"{settings.snapshot} is not a gramhouse snapshot. Fix: check GRAMHOUSE_SNAPSHOT."
        )
    age = (datetime.now(UTC) - at).total_seconds()
    if age < 0:
        when = f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        message = (
            f"{settings.snapshot} was published in the future, {when}: the clock was ahead then, or is behind now."
        )
        return Finding("snapshot", "note", message)
    return Finding("snapshot", "ok", f"{settings.snapshot} was published {span(age)} ago")


def _prefect() -> Finding:
    url = prefect_api_url()
    if url is None:
        return Finding("Prefect", "note", "PREFECT_API_URL is not set: syncs run directly, without Prefect.")
    from flows.orchestration.prefect_import import import_prefect

    try:
        import_prefect()
        from flows.orchestration.flow_run import check_tracker

        asyncio.run(check_tracker())
    except (SettingsError, TrackerUnreachable) as error:
        return Finding("Prefect", "bad", str(error))
    return Finding("Prefect", "ok", f"{url} answers")


def _workers(settings: Settings) -> Iterator[Finding]:
    if settings.engine == "local":
        return
    try:
        yield _dask(settings)
    except SettingsError as error:
        yield Finding("workers", "bad", str(error))


def _dask(settings: Settings) -> Finding:
    from flows.engine.dask import count_workers

    if settings.scheduler is None:
        found = f"a run starts {count(settings.workers, 'process', 'processes')} on this machine"
        return Finding("workers", "ok", found)
    workers = asyncio.run(count_workers(settings))
    if workers:
        return Finding("workers", "ok", f"{settings.scheduler} answers, and has {count(workers, 'worker')}")
    hint = f"{settings.scheduler} answers, and has no worker. Fix: start `dask worker {settings.scheduler}`."
    return Finding("workers", "bad", hint)


def _schedules(settings: Settings) -> Finding:
    now = datetime.now(UTC)
    warning = gap_warning(settings.nightly, settings.stories, settings.time_zone, now)
    if warning:
        return Finding("schedules", "note", warning)
    due = next(fires(settings.nightly, settings.time_zone, now))
    when = f"{due:%Y-%m-%d %H:%M} {settings.time_zone}"
    return Finding("schedules", "ok", f"`gramhouse up` runs the next nightly sync at {when}; no story can be missed")


def _findings(settings: Settings) -> Iterator[Finding]:
    yield from _configuration(settings)
    yield from _api(settings, datetime.now(UTC))
    yield from _folder(settings)
    yield _warehouse(settings)
    yield from _bucket(settings)
    yield _snapshot(settings)
    yield _prefect()
    yield from _workers(settings)
    yield _schedules(settings)


def _repair(settings: Settings, lift: Callable[[str], bool]) -> Iterator[Finding]:
    from flows.engine.upkeep import lift_now, repair_now

    moved = asyncio.run(repair_now(settings))
    if moved:
        what = f"{count(moved.count, 'time')} in the future, up to {moved.last:%Y-%m-%d %H:%M} UTC"
        yield Finding("repair", "ok", f"moved back {what}; cooldowns among them start now")
    else:
        yield Finding("repair", "ok", "no stored time lies in the future: nothing to repair")
    now = datetime.now(UTC)
    if long := _long(_cooldowns(settings, now), now):
        until = max(long.values())
        what = f"the cooldown until {moment(until, seconds=True)} UTC of {several(list(long))}"
        if lift(what):
            asyncio.run(lift_now(settings, until=until, now=now))
            yield Finding("repair", "ok", f"lifted {what}")
        else:
            yield Finding("repair", "note", f"kept {what}. Fix: lift it with `gramhouse doctor --repair --yes`.")


def _ask(what: str) -> bool:
    try:
        answer = input(f"The API asked for {what}. Lift it, so that the next sync sends requests again? [y/N] ")
    except EOFError:
        # There is nobody to answer, as under cron.
        answer = ""
        out.print()
    return answer.strip().lower() in {"y", "yes"}


def doctor(
    *,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="First correct stored times that are in the future because the clock was ahead, and restart the"
            " cooldowns that depend on them; then offer to lift cooldowns of more than a day.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --repair, lift such cooldowns without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check configuration, API key, API, warehouse, snapshot, Prefect and workers: one line each.

    Exit codes: 0 all checks passed and --repair, if given, succeeded; 1 a check failed; 2 wrong usage or configuration;
    4 --repair found the warehouse held by another process.
    """
    settings = load()
    if yes and not repair:
        message = "--yes is an answer to --repair. Fix: use both, or leave it out."
        raise SettingsError(message)
    lift = (lambda _: True) if yes else (lambda _: False) if as_json else _ask
    found = []
    for finding in chain(_repair(settings, lift) if repair else (), _findings(settings)):
        found.append(finding)
        if not as_json:
            out.print(f"{_MARKS[finding.verdict]} [bold]{finding.check}[/] {clean(finding.message)}")
    bad = {finding.check for finding in found if finding.verdict == "bad"}
    wrong = bad & {"configuration", "address", "key", "network"}
    exit_code = ExitCode.WRONG_USAGE if wrong else ExitCode.FAILED if bad else ExitCode.COMPLETE
    if as_json:
        print_json({"exit_code": exit_code, "findings": [asdict(finding) for finding in found]})
    raise typer.Exit(exit_code)
