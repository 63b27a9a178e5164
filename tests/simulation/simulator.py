"""Simulates a scenario: every day runs a process that may be killed, then the protocol and the snapshot are checked."""

import asyncio
import hashlib
import logging
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from pydantic import SecretStr

from connectors.sandbox.contract import ACCOUNT_SCOPE, CATALOG_SCOPE
from connectors.sandbox.http.keys import DEMO_KEY
from connectors.sandbox.settings import SandboxSettings
from connectors.source.client import ApiClient
from connectors.warehouse import warehouse as writing
from connectors.warehouse.maintenance.compact import compact
from connectors.warehouse.maintenance.opening import opened_store
from connectors.warehouse.maintenance.rebuild import rebuild_stored
from connectors.warehouse.storage import connection as connecting
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.warehouse import open_warehouse
from flows.engine.concurrency import Slots
from flows.engine.run import RunResources
from flows.engine.run_request import RunRequest
from flows.pipeline import run_sync
from flows.reporting.run_report import RunReport
from models import incremental
from models.checkpoint import ScanState
from models.page_commit import PageCommit
from models.schema.mapping_built_in import BUILT_IN
from models.selection import NothingChosen, Selection
from tests.api.server import Api
from tests.model.recent import EVERY, LOOKBACK, RUN
from tests.simulation.api_checks import check_above_depths, check_against_api, check_request_count, is_undisturbed
from tests.simulation.crashes import Crash, CrashTrigger, crash_points
from tests.simulation.disk import Disk
from tests.simulation.events import (
    CooldownLanded,
    Event,
    PageLanded,
    PageQuarantined,
    RequestSent,
    ScanAbandoned,
    instant,
)
from tests.simulation.incremental_models import IncrementalModels
from tests.simulation.loop import Killed, VirtualLoop, run_process, unwind
from tests.simulation.protocol_checker import WITHIN, ProtocolChecker, Session, Violation, require
from tests.simulation.scenario import Day, Scenario, Upkeep
from tests.simulation.snapshot_check import Snapshot, compare
from tests.simulation.transport import SimulatedTransport

# Days without faults at the end: 60 hours, so that all cooldowns are over, and another; with full scans, if others had
# recent ones.
_QUIET = (Day(hours=60.0), Day())
_QUIET_RECENT = (*(replace(day, mode="incremental") for day in _QUIET), Day(page_size=50))
MOST_BYTES = 300_000
_EVERYTHING = Selection(everything=True)
_OUTCOMES = "SELECT account_id, surface, outcome, error_code, correlation_id FROM run_outcomes WHERE run_id = '{}'"


class ProcessClock:
    """The clock of a process; its monotonic time starts at 0."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._begun = loop.time()

    def now(self) -> datetime:
        return instant(self._loop.time())

    def monotonic(self) -> float:
        return self._loop.time() - self._begun

    async def sleep(self, seconds: float) -> None:
        # A shorter sleep would vanish in floating point addition, and a polling loop would never end.
        await asyncio.sleep(max(seconds, 1e-6))


@dataclass(frozen=True, slots=True)
class Run:
    """A row of `core.runs`."""

    run_id: str
    kind: str
    selection: str | None
    state: str
    started_at: datetime
    resumes: str | None
    published: bool


def day_of(id_: str) -> int:
    """Return the day on which an id was created."""
    return int(id_.partition("-")[0])


@dataclass
class Simulator:
    """Simulates a scenario in a folder."""

    scenario: Scenario
    disk: Disk
    checker: ProtocolChecker = field(default_factory=ProtocolChecker)
    now: float = 3600.0
    runs: list[Run] = field(default_factory=list)
    days: int = 0
    ended: int = 0
    recent: int = 0
    trace: Any = field(default_factory=hashlib.sha256)
    load: Callable[[Path], None] = field(default_factory=lambda: IncrementalModels().load)

    def __post_init__(self) -> None:
        world = self.scenario.world
        settings = SandboxSettings(
            seed=world.seed,
            accounts=world.accounts,
            posts=world.posts,
            stories=world.stories,
            change_every=world.change_every,
        )
        self._loop: VirtualLoop | None = None
        self.sandbox = Api(settings, shape=world.shape, feed=world.feed, clock=self._time, sleep=asyncio.sleep)
        self._log: list[Event] = []

    def _time(self) -> float:
        return self._loop.time() if self._loop else self.now

    def run(self) -> None:
        """Simulate all days, then the days without faults, which may only be partial because of missing accounts.

        Raise Violation, or the error of a run.
        """
        days = self.scenario.days
        for number, day in enumerate(days):
            self._run_day(number, day)
        is_recent = any(day.mode == "incremental" for day in days)
        for number, day in enumerate(_QUIET_RECENT if is_recent else _QUIET, start=len(days)):
            report = self._run_day(number, day)
            due = "partial" if self.checker.model.accounts.lacks_many else "complete"
            require(report is not None and report.state == due, f"a day without faults ended {report}")
            snapshot = Snapshot(self.disk.snapshot)
            try:
                check_against_api(self.checker, self.sandbox, snapshot)
            finally:
                snapshot.close()

    def _run_day(self, number: int, day: Day) -> RunReport | None:
        self.days += 1
        self._configure_sandbox(day)
        self.now += day.hours * 3600
        random = Random(f"{self.scenario.seed} {number}")
        step = day.crash.nth if day.crash and day.crash.where == "step" else None
        self._loop = loop = VirtualLoop(self.now, random, dies_at=step)
        self._log = []
        session_begun = instant(self.now)

        def on_death() -> None:
            loop.die()
            self.disk.copy_files()

        trigger = CrashTrigger(day.crash, on_death)
        report = None
        with self.disk.opened(self._look) as writer, pytest.MonkeyPatch.context() as patch:
            patch.setattr(writing, "writer", writer)
            try:
                with crash_points(trigger, self._landed):
                    report = run_process(loop, self._process(loop, number, day, random))
                if report is None and not trigger.dead:
                    self.disk.copy_files()
            except NothingChosen:
                require(not self.checker.present(), "the selection was empty although there are accounts")
            finally:
                self.now, log = loop.time(), list(self._log)
                unwind(loop)
        for event in log:
            self.trace.update(repr(event).encode())
        if day.upkeep is not None and self.disk.warehouse.exists():
            self._keep_up(day.upkeep, day.upkeep_crash)
        run_kind = "backfill" if day.backfill else "sync"
        self._check(day, Session(number, run_kind, session_begun, day.mode, day.max_requests), log, report)
        # If the run has not published one, that of an earlier run again.
        if self.disk.snapshot.exists():
            self.load(self.disk.snapshot)
        return report

    def _keep_up(self, upkeep: Upkeep, crash: Crash | None) -> None:
        """Compact or rebuild the warehouse, which changes nothing that it contains, whatever happens meanwhile."""
        now, path = instant(self.now), self.disk.warehouse
        full_disk = (WarehouseUnusable, duckdb.IOException) if crash and not crash.dies else ()
        with (
            self.disk.ended_life(),
            suppress(Killed, *full_disk),
            crash_points(CrashTrigger(crash, self.disk.copy_files)),
        ):
            if upkeep == "compact":
                compact(path, now=now, pause=lambda _: None)
                return
            with (
                connecting.writer(path, "a rebuild", since="now", pause=lambda _: None) as connection,
                opened_store(connection, "a rebuild", now=now, pause=lambda _: None, mapping=BUILT_IN),
                connection.begin(),
            ):
                rebuild_stored(connection, BUILT_IN)

    def _configure_sandbox(self, day: Day) -> None:
        sandbox = self.sandbox
        sandbox.day += day.advance
        sandbox.script.replace(day.faults)
        sandbox.limiter.configure({CATALOG_SCOPE: day.catalogue_limit, ACCOUNT_SCOPE: day.account_limit})
        if day.forgets_cursors:
            sandbox.forget_cursors()

    def _look(self, connection: Connection) -> None:
        rows = connection.db.execute(
            "SELECT run_id, kind, selection, state, started_at, resumes, published_at IS NOT NULL FROM core.runs"
            " ORDER BY started_at DESC"
        ).fetchall()
        # With several threads the order would not be deterministic.
        connection.db.execute("SET threads = 1")
        self.runs = [Run(*row) for row in rows]

    def _events(self, landing: PageCommit) -> Iterator[Event]:
        now = self._time()
        if landing.page is not None and landing.page.scan_id:
            recent = landing.checkpoint is not None and landing.checkpoint.state is ScanState.RECENT
            yield PageLanded(now, landing.page.correlation_id, recent, landing.checkpoint is not None)
        elif landing.page is not None:
            [record], where = landing.page.rejected, landing.page.partition
            yield PageQuarantined(now, (where.account_id, where.surface), record.payload)
        if landing.checkpoint is not None and landing.checkpoint.state is ScanState.ABANDONED:
            where = landing.checkpoint.partition
            yield ScanAbandoned(now, (where.account_id, where.surface))
        if landing.cooldown is not None:
            yield CooldownLanded(now, landing.cooldown.scope)

    def _landed(self, commits: Sequence[PageCommit]) -> None:
        self._log += [event for commit in commits for event in self._events(commit)]

    def _check(self, day: Day, session: Session, log: list[Event], report: RunReport | None) -> None:
        session.chain = self._chain(session)
        self.checker.begin(session)
        self.checker.check_events(session, log)
        if report is None:
            require(self.disk.snapshot.exists() or not self.ended, "the snapshot was deleted")
            if self.disk.snapshot.exists():
                Snapshot(self.disk.snapshot).close()
            return
        self.ended += 1
        snapshot = Snapshot(self.disk.snapshot)
        try:
            rows = snapshot.rows(_OUTCOMES.format(report.run_id))
            outcomes = {(account, surface): (kind, code, trace) for account, surface, kind, code, trace in rows}
            require(len(rows) == len(outcomes), "a partition has two outcomes")
            self.checker.check_outcomes(session, outcomes, report.state)
            resumed_runs = [day_of(run_id) for run_id in report.resumed_runs]
            require(resumed_runs == session.chain, f"the run resumes {resumed_runs}, and should resume {session.chain}")
            compare(self.checker.model, self.checker.gaps(), snapshot)
        finally:
            snapshot.close()
        recent = {where[0] for where, (kind, _, _) in outcomes.items() if kind == "recent"}
        self.recent += len(recent)
        if is_undisturbed(day):
            closed = {where for where, (kind, _, _) in outcomes.items() if kind in ("complete", "recent")}
            begun = {one.partition for one in log if isinstance(one, RequestSent) and one.cursor is None}
            check_above_depths(self.checker, self.sandbox, closed & begun)
        check_request_count(day, session, self.sandbox, recent, log)
        self.trace.update(repr((report.state, sorted(rows, key=repr))).encode())

    def _chain(self, session: Session) -> list[int]:
        """Return the days of the runs that this run resumes, newest first, by the ledger at its start."""
        selection = None if session.run_kind == "sync" else str(_EVERYTHING)
        runs = {run.run_id: run for run in self.runs if (run.kind, run.selection) == (session.run_kind, selection)}
        run = next(iter(runs.values()), None)
        chain: list[Run] = []
        while run is not None and (run.state in ("running", "interrupted") or not run.published):
            chain.append(run)
            run = runs.get(run.resumes or "")
        if not chain or session.begun - chain[-1].started_at > WITHIN:
            return []
        return [day_of(run.run_id) for run in chain]

    def request(self, day: Day) -> RunRequest:
        """Return the run request of a day."""
        return RunRequest(
            self.disk.snapshot,
            WITHIN,
            "simulated",
            selection=_EVERYTHING if day.backfill else None,
            mode=day.mode,
            lookback=LOOKBACK,
            full_refresh_every=EVERY,
            max_requests=day.max_requests,
            page_size=day.page_size,
            max_wait=day.max_wait,
        )

    async def _process(self, loop: VirtualLoop, number: int, day: Day, random: Random) -> RunReport:
        clock = ProcessClock(loop)
        ids = count(1)
        transport = SimulatedTransport(self.sandbox, random, self._log, day, loop.time)
        client = ApiClient(
            "http://127.0.0.1", SecretStr(DEMO_KEY), clock=clock, transport=transport, max_body_bytes=MOST_BYTES
        )
        warehouse = open_warehouse(self.disk.warehouse, "a simulation", now=clock.now(), merge_bytes=day.merge_bytes)
        request = self.request(day)
        async with warehouse as opened, client:
            resources = RunResources(
                send=client.send,
                warehouse=opened,
                clock=clock,
                random=random.random,
                new_id=lambda: f"{number}-{next(ids)}",
                slots=Slots(day.concurrency),
            )
            return await self.sync(request, resources)

    async def sync(self, request: RunRequest, resources: RunResources) -> RunReport:
        """Run a sync or backfill."""
        return await run_sync(request, resources)


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The result of a scenario; `trace` is a digest of all events, and `violation` is None if nothing failed.

    `recent` is the number of scans that stopped at known posts.
    """

    scenario: Scenario
    days: int
    ended: int
    recent: int
    trace: str
    violation: str | None = None


def simulate(scenario: Scenario, load: Callable[[Path], None] | None = None) -> SimulationResult:
    """Simulate a scenario in a temporary folder; `load` is called with the snapshot of each day."""
    logging.disable()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=memory) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(incremental, "KNOWN_RUN", RUN)
        simulator = Simulator(scenario, Disk(Path(folder)))
        simulator.load = load or simulator.load
        violation = None
        try:
            simulator.run()
        except Exception as error:  # noqa: BLE001 - any error is a finding of this seed
            violation = (
                "".join(traceback.format_exception(error)[-2:]) if not isinstance(error, Violation) else f"{error}"
            )
        finally:
            logging.disable(logging.NOTSET)
        return SimulationResult(
            scenario, simulator.days, simulator.ended, simulator.recent, simulator.trace.hexdigest(), violation
        )
