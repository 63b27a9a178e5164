"""Simulates a scenario: every day runs commands that may be killed, then the promises and the snapshot are checked."""

import asyncio
import copy
import hashlib
import shutil
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from connectors.sandbox.contract import ACCOUNT_SCOPE, CATALOG_SCOPE
from connectors.sandbox.http.access import DEMO_KEY
from connectors.sandbox.settings import SandboxSettings
from tests.api.faults import TAMPERINGS
from tests.api.server import Api
from tests.harness import landings
from tests.harness.against_api import by_key, differences
from tests.harness.compare import Snapshot, compare, compare_raw
from tests.harness.events import Event, Run, Sent
from tests.harness.oracle.feed import EVERY, LOOKBACK
from tests.harness.oracle.reading import Item, canonical
from tests.harness.oracle.tables import Key, Partition
from tests.harness.points import Crash
from tests.harness.process import Ended, Machine, instant
from tests.harness.promises import WITHIN, Promises, Session, Violation, require
from tests.harness.scenario import Day, Scenario, Upkeep
from tests.harness.transport import Transport

# Days without faults at the end: 60 hours, so that all cooldowns are over, and more for removals to be confirmed; with
# full scans, if others had recent ones.
_QUIET = (Day(100, hours=60.0), Day(101), Day(102, page_size=50))
_RECENT = (
    Day(100, hours=60.0, mode="incremental"),
    Day(101, mode="incremental"),
    Day(102, page_size=50),
    Day(103, page_size=50),
)
_HIDDEN = ("caption",)
_CODES = {"complete": 0, "failed": 1, "partial": 3}
_OUTCOMES = (
    "SELECT account_id, surface, outcome, error_code, correlation_id, http_status FROM run_outcomes WHERE run_id = '{}'"
)


@dataclass
class Simulation:
    """Simulates a scenario in a folder. `published` is called with the snapshot of each day."""

    scenario: Scenario
    folder: Path
    published: Callable[[Path], None] = lambda _: None
    promises: Promises = field(default_factory=Promises)
    of_runs: dict[str, int] = field(default_factory=dict)
    days: int = 0
    ended: int = 0
    recent: int = 0
    is_refused: bool = False
    trace: Any = field(default_factory=hashlib.sha256)

    def __post_init__(self) -> None:
        world = self.scenario.world
        settings = SandboxSettings(
            seed=world.seed,
            accounts=world.accounts,
            posts=world.posts,
            stories=world.stories,
            change_every=world.change_every,
        )
        self.folder.mkdir(parents=True)
        self.machine = Machine(self.folder)
        self.api = Api(settings, shape=world.shape, feed=world.feed, clock=self.machine.time, sleep=asyncio.sleep)
        self._backup = self.folder.with_name("backup")
        self._remembered: Any = None
        self._log: list[Event] = []

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse.duckdb"

    @property
    def snapshot(self) -> Path:
        return self.folder / "analytics.duckdb"

    def run(self) -> None:
        """Simulate all days, then the days without faults, which may only be partial because of missing accounts.

        Raises Violation, or the error of a run.
        """
        days = self.scenario.days
        quiet = _RECENT if any(day.mode == "incremental" for day in days) else _QUIET
        for day in (*days, *quiet):
            self.days += 1
            state = self._run_day(day)
            if day in days:
                continue
            due = "partial" if self.promises.warehouse.lacks_many or self.is_refused else "complete"
            require(state == due, f"a day without faults ended {state}")
            with Snapshot(self.snapshot) as snapshot:
                self._check_against_api(snapshot)

    def _run_day(self, day: Day) -> str | None:
        self._configure_api(day)
        self.machine.now += day.hours * 3600
        random = Random(f"{self.scenario.seed} {day.number}")
        if day.restores is not None:
            self._restore(day, random)
        session = Session(day.number, "backfill" if day.backfill else "sync", instant(self.machine.now), day.mode)
        session.max_requests = None if day.backfill else day.max_requests
        session.accepts_removals = day.accepts_removals and not day.backfill
        session.chain = self._chain(session)
        state = self._sync(day, session, random)
        self._show(day, random)
        for upkeep in day.upkeep if self.warehouse.exists() else ():
            self._keep_up(day, upkeep, random)
        # If the run has not published one, that of an earlier run again.
        if self.snapshot.exists():
            self.published(self.snapshot)
            if random.random() < 0.5:
                self._back_up()
        return state

    def _configure_api(self, day: Day) -> None:
        self.api.day += day.advance
        self.api.script.replace(day.faults)
        self.api.limiter.configure({CATALOG_SCOPE: day.catalogue_limit, ACCOUNT_SCOPE: day.account_limit})
        if day.forgets_cursors:
            self.api.forget_cursors()

    def _command(self, day: Day, random: Random, *arguments: str, crash: Crash | None = None) -> Ended:
        settings = {
            "base_url": "http://127.0.0.1",
            "api_key": DEMO_KEY,
            "warehouse": self.warehouse,
            "snapshot": self.snapshot,
            "page_size": day.page_size,
            "concurrency": day.concurrency,
            "max_wait": day.max_wait,
            "resume_within": WITHIN.total_seconds(),
            "lookback_window": LOOKBACK.days,
            "full_refresh_every": EVERY.days,
            **({"hide": ",".join(_HIDDEN)} if day.hides else {}),
        }
        transport = Transport(self.api, random, self._log, day, self.machine.time)
        self._log.clear()
        with landings.observed(self._log.append, self.machine.time):
            ended = self.machine.run((*arguments, "--json"), settings, random=random, transport=transport, crash=crash)
        for event in self._log:
            self.trace.update(repr(event).encode())
        self.trace.update(repr((arguments, ended.code)).encode())
        require("Traceback" not in ended.err and "Bug in gramhouse" not in ended.out, ended.err or ended.out)
        return ended

    def _sync(self, day: Day, session: Session, random: Random) -> str | None:
        """Run a sync or backfill, and check it; return its state, or None if it was killed or could not end."""
        options = ("backfill", "--all") if day.backfill else ("sync",)
        if day.mode == "incremental" and not day.backfill:
            options = (*options, "--incremental")
        if session.max_requests is not None:
            options = (*options, "--max-requests", f"{session.max_requests}")
        if session.accepts_removals:
            options = (*options, "--accept-removals")
        ended = self._command(day, random, *options, crash=day.crash)
        log = list(self._log)
        for run in landings.runs(self.warehouse):
            self.of_runs.setdefault(run.run_id, session.number)
        self.promises.begin(session)
        self.promises.check(session, log)
        report = ended.json if ended.out else {}
        if report.get("state") == "nothing_to_do":
            require(not self.promises.warehouse.accounts.present(), "nothing was chosen although there are accounts")
            return None
        if ended.code is None or "run_id" not in report:
            full = day.crash is not None and not day.crash.dies
            require(ended.code is None or full, f"the run ended {ended.code}: {ended.err}")
            if self.snapshot.exists():
                Snapshot(self.snapshot).__exit__()
            else:
                require(not self.ended, "the snapshot is gone")
            return None
        self.ended += 1
        self.is_refused = self._show(day, random)
        self._check_report(day, session, report, ended.code, log)
        return str(report["state"])

    def _show(self, day: Day, random: Random) -> bool:
        """Show what the last snapshot hid, if the day does not hide it; return whether it was hidden."""
        if day.hides or not self.snapshot.exists():
            return False
        with Snapshot(self.snapshot) as snapshot:
            if snapshot.rows("SELECT hidden FROM published") == [(None,)]:
                return False
        ended = self._command(day, random, "publish", "--show-hidden")
        require(ended.code == 0, f"what was hidden cannot be shown: {ended.code} {ended.err}")
        return True

    def _check_report(
        self,
        day: Day,
        session: Session,
        report: Any,  # noqa: ANN401 - any JSON
        code: int,
        log: list[Event],
    ) -> None:
        with Snapshot(self.snapshot) as snapshot:
            rows = snapshot.rows(_OUTCOMES.format(report["run_id"]))
            outcomes = {(row[0], row[1]): row[2:] for row in rows}
            require(len(rows) == len(outcomes), "a partition has two outcomes")
            require(sum(report["outcomes"].values()) == len(rows), f"{len(rows)} outcomes, and {report['outcomes']}")
            # A forgotten account that is listed is skipped, under another id.
            outcomes = {where: found for where, found in outcomes.items() if found[1] != "forgotten"}
            self.promises.check_outcomes(session, outcomes, report["state"], is_refused=self.is_refused)
            require(_CODES[report["state"]] == code, f"exit code {code} for {report['state']}")
            sent = sum(isinstance(event, Sent) for event in log)
            require(report["requests"] == sent, f"{report['requests']} requests reported, {sent} sent")
            resumed = [self.of_runs[run_id] for run_id in report["resumed_runs"]]
            require(resumed == session.chain, f"the run resumes {resumed}, and should resume {session.chain}")
            self._compare(day, snapshot)
            self.recent += sum(kind == "recent" for kind, *_ in outcomes.values())
            closed = {where for where, (kind, *_) in outcomes.items() if kind in ("complete", "recent")}
            begun = {one.partition for one in log if isinstance(one, Sent) and one.cursor is None}
            tampered = any(rule.action.kind in (*TAMPERINGS, "page", "oversize") for rule in day.faults)
            if not tampered and not day.day_changes and session.kind == "sync":
                self._check_above_depths(day, snapshot, closed & begun)
        self.trace.update(repr((report["state"], sorted(rows, key=repr))).encode())

    def _compare(self, day: Day, snapshot: Snapshot) -> None:
        compare(self.promises, snapshot, self.of_runs, hides=day.hides)
        if day.hides:
            written = self.snapshot.read_bytes()
            rows = self.promises.warehouse.media.rows.values()
            texts = {canonical(row.shown, name) for row in rows for name in _HIDDEN} - {None}
            shown = [text for text in texts if len(text) > 12 and text.encode() in written]
            require(not shown, f"what is hidden is in the snapshot's file: {shown[:3]}")
        compare_raw(self.promises, self.folder / "raw")

    def _listed(self) -> dict[Key, Item]:
        return by_key(self.api.list_media())

    def _check_against_api(self, snapshot: Snapshot) -> None:
        """Raise Violation unless the snapshot has what the API lists, after a day without faults."""
        forgotten = self.promises.forgotten
        accounts = {one.id: one.status for one in self.api.catalogue.accounts(self.api.day) if one.id not in forgotten}
        wrong = differences(snapshot.rows, accounts, self._listed())
        require(not wrong, f"the snapshot is not what the API lists: {wrong[:3]}")

    def _check_above_depths(self, day: Day, snapshot: Snapshot, closed: set[Partition]) -> None:
        """Raise Violation unless the warehouse has every post above the depth of the scans just closed, as listed."""
        items = {key: item for key, item in self._listed().items() if key[:2] in closed}
        status, hidden = {one: "active" for one, _ in closed if one}, _HIDDEN if day.hides else ()
        found = differences(snapshot.rows, status, items, exact=False, hidden=hidden)
        wrong = [each for each in found if not each.startswith("account ")]
        require(not wrong, f"a closed scan has not what the API lists: {wrong[:3]}")

    def _chain(self, session: Session) -> list[int]:
        """Return the processes of the runs that this run resumes, newest first."""
        runs = {run.run_id: run for run in landings.runs(self.warehouse) if run.kind == session.kind}
        run = next(iter(runs.values()), None)
        chain: list[Run] = []
        while run is not None and (run.state in ("running", "interrupted") or not run.published):
            chain.append(run)
            run = runs.get(run.resumes or "")
        if not chain or session.begun - chain[-1].started_at > WITHIN:
            return []
        return [self.of_runs[run.run_id] for run in chain]

    def _keep_up(self, day: Day, upkeep: Upkeep, random: Random) -> None:
        """Run a command that changes nothing of what the warehouse says, or forgets an account."""
        arguments: tuple[str, ...] = (upkeep.command,)
        account = None
        if upkeep.command == "forget":
            present = sorted(self.promises.warehouse.accounts.rows)
            if not present or len(self.promises.forgotten) > 0:
                return
            account = random.choice(present)
            arguments = ("forget", account, "--yes")
        self.promises.is_rebuilt |= upkeep.command == "rebuild"
        ended = self._command(day, random, *arguments, crash=upkeep.crash)
        if upkeep.crash is not None and ended.code != 0 and (account or random.random() < 0.5):
            # What was interrupted is run again; else the next run must find its way.
            ended = self._command(day, random, *arguments)
        if ended.code is None:
            return
        full = upkeep.crash is not None and not upkeep.crash.dies
        require(ended.code == 0 or full, f"{arguments} ended {ended.code}: {ended.err}{ended.out}")
        if account is not None and ended.code == 0:
            self._forget(account)
        if ended.code == 0 and upkeep.command != "compact":
            with Snapshot(self.snapshot) as snapshot:
                self._compare(day, snapshot)

    def _forget(self, account: str) -> None:
        self.promises.forget(account)
        # The files that are not read while they are compressed: this is what a search of the disk would find.
        found = [
            path.name for path in self.folder.rglob("*") if path.is_file() and account.encode() in path.read_bytes()
        ]
        allowed = {"warehouse.duckdb", "analytics.duckdb"}
        require(set(found) <= allowed, f"{account} is forgotten, and found in {found}")

    def _back_up(self) -> None:
        shutil.rmtree(self._backup, ignore_errors=True)
        shutil.copytree(self.folder, self._backup)
        self._remembered = copy.deepcopy((self.promises, self.of_runs))

    def _restore(self, day: Day, random: Random) -> None:
        """Restore the backup; or one of the files alone, which every command must refuse, and then the others again."""
        if not self._backup.exists():
            return
        if day.restores == "together":
            shutil.rmtree(self.folder)
            shutil.copytree(self._backup, self.folder)
            self.promises, self.of_runs = copy.deepcopy(self._remembered)
            return
        names = [sorted(path.name for path in folder.rglob("raw-*")) for folder in (self.folder, self._backup)]
        if names[0] == names[1]:
            return
        kept = self.folder.with_name("kept")
        shutil.copytree(self.folder, kept)
        name = "warehouse.duckdb" if day.restores == "warehouse" else "raw"
        _replace(self.folder / name, self._backup / name)
        ended = self._command(day, random, "publish")
        require(ended.code == 1 and "Fix: " in ended.err, f"{name} was restored alone: {ended.code} {ended.err}")
        shutil.rmtree(self.folder)
        kept.rename(self.folder)


def _replace(path: Path, by: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
        shutil.copytree(by, path)
    else:
        path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
        shutil.copy2(by, path)
        if (log := by.with_name(f"{by.name}.wal")).exists():
            shutil.copy2(log, path.with_name(f"{path.name}.wal"))


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a scenario; `trace` is a digest of all events, and `violation` is None if nothing failed.

    `recent` is the number of scans that stopped at known posts.
    """

    scenario: Scenario
    days: int
    ended: int
    recent: int
    trace: str
    violation: str | None = None


def simulate(scenario: Scenario, published: Callable[[Path], None] = lambda _: None) -> Result:
    """Simulate a scenario in a temporary folder; `published` is called with the snapshot of each day."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=memory) as folder:
        simulation = Simulation(scenario, Path(folder) / "files", published)
        violation = None
        try:
            simulation.run()
        except Exception as error:  # noqa: BLE001 - any error is a finding of this seed
            violation = f"{error}" if isinstance(error, Violation) else "".join(traceback.format_exception(error)[-4:])
            violation = f"on its {simulation.days}th day: {violation}"
        trace = simulation.trace.hexdigest()
        return Result(scenario, simulation.days, simulation.ended, simulation.recent, trace, violation)
