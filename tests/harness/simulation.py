"""Simulates a scenario: every day runs commands that may be killed, then the promises and the snapshot are checked."""

import asyncio
import copy
import hashlib
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from connectors.sandbox.contract import ACCOUNT_SCOPE, CATALOG_SCOPE
from tests.api.server import Api
from tests.harness.against_api import differences
from tests.harness.compare import compare, compare_raw
from tests.harness.machine import Machine, instant
from tests.harness.points import Crash
from tests.harness.promises import FULL_EVERY, LOOKBACK, WITHIN, Event, Promises, Session, Violation, require
from tests.harness.scenario import Day, Scenario, Upkeep, generate, leave_out, list_parts
from tests.harness.watching import Transport, read_runs, watched_landings
from tests.operator import KEY, Done, Operator

# Days without faults at the end: 60 hours, so that all cooldowns are over, and more for removals to be confirmed.
_QUIET = (Day(100, hours=60.0, mode="incremental"), Day(101), Day(102, page_size=50))
_CODES = {"complete": 0, "failed": 1, "partial": 3}
_OUTCOMES = "SELECT account_id, surface, outcome, error_code FROM run_outcomes WHERE run_id = '{}'"
# The files that a restore replaces, unless it is of all together.
_FILES = {
    "warehouse": "warehouse.duckdb",
    "state": "*.state.sqlite*",
    "raw": "raw-*.parquet",
    "all but raw": "warehouse.duckdb*",
}


@dataclass
class Result:
    """The result of a scenario; `trace` is a digest of all events, and `violation` is None if nothing failed.

    It counts `days`, runs that `ended` without a kill, `recent` scans, and files restored `alone` that were refused.
    """

    counts: Counter[str] = field(default_factory=Counter)
    trace: str = ""
    violation: str | None = None


class Simulation:
    """Simulates a scenario in a folder. `published` is called with the snapshot of each day."""

    def __init__(self, scenario: Scenario, folder: Path, published: Callable[[Path], None]) -> None:
        folder.mkdir(parents=True)
        self.scenario, self.folder, self.published = scenario, folder, published
        self.counts, self.trace = Counter[str](), hashlib.sha256()
        self.operator = Operator(folder, here=True, cwd=folder)
        self.machine = Machine(self.operator)
        self.warehouse, self.snapshot = self.operator.warehouse, self.operator.snapshot
        clock = SimpleNamespace(monotonic=self.machine.time, sleep=asyncio.sleep)
        self.api = Api(scenario.settings, feed=scenario.feed, drifts=scenario.drifts, clock=clock)
        self.promises = Promises()
        # The number of the process of each run.
        self.of_runs: dict[str, int] = {}
        self._backup, self._kept = folder.with_name("backup"), folder.with_name("kept")
        self._remembered: Any = None
        self._log: list[Event] = []

    def run(self) -> None:
        """Simulate all days, then the days without faults, which may only be partial because of missing accounts.

        Raises Violation, or the error of a run.
        """
        for day in self.scenario.days:
            self._run_day(day)
        for day in _QUIET:
            state = self._run_day(day)
            due = "partial" if self.promises.warehouse.lacks_many else "complete"
            require(state == due, f"a day without faults ended {state}")
            wrong = differences(self.operator.ask, self.api, without=self.promises.warehouse.forgotten)
            require(not wrong, f"the snapshot is not what the API lists: {wrong[:3]}")

    def _run_day(self, day: Day) -> str | None:
        self.counts["days"] += 1
        self.api.day += day.advance
        self.api.script.replace(day.faults)
        self.api.limiter.configure({CATALOG_SCOPE: day.catalogue_limit, ACCOUNT_SCOPE: day.account_limit})
        self.machine.now += day.hours * 3600
        random = Random(f"{self.scenario.seed} {day.number}")
        if day.restores is not None and self._backup.exists():
            self._restore(day, random)
        state = self._sync(day, random)
        for upkeep in day.upkeep if self.warehouse.exists() else ():
            self._keep_up(day, upkeep, random)
        # If the run has not published one, that of an earlier run again.
        if self.snapshot.exists():
            self.published(self.snapshot)
            # An old backup is kept on most days: what belongs to another day must be refused.
            if not self._backup.exists() or random.random() < 0.2:
                _copy(self.folder, self._backup)
                self._remembered = copy.deepcopy((self.promises, self.of_runs))
        return state

    def _command(self, day: Day, random: Random, *arguments: str, crash: Crash | None = None) -> Done | None:
        """Run a command; None: it was killed."""
        settings = {
            "base_url": "http://127.0.0.1",
            "api_key": KEY,
            "page_size": day.page_size,
            "concurrency": day.concurrency,
            "max_wait": day.max_wait,
            "resume_within": WITHIN.total_seconds(),
            "lookback_window": LOOKBACK.days,
            "full_refresh_every": FULL_EVERY.days,
            "scan_expired": day.scans_expired,
        }
        self.operator.env = {f"GRAMHOUSE_{name.upper()}": str(value) for name, value in settings.items()}
        transport = Transport(self.api, random, self._note, day, self.machine.time)
        self._log = []
        with watched_landings(self._note):
            done = self.machine.run(*arguments, "--json", random=random, transport=transport, crash=crash)
        self.trace.update(repr((self._log, arguments, done and done.code)).encode())
        require(done is None or "Bug in gramhouse" not in done.stdout, f"{done}")
        return done

    def _note(self, *event: object) -> None:
        """Note an event, unless it comes after the process was killed."""
        if not self.machine.points.dead:
            self._log.append(event)

    def _sync(self, day: Day, random: Random) -> str | None:
        """Run a sync or backfill, and check it; return its state, or None if it was killed or could not end."""
        kind, is_full = "backfill" if day.backfill else "sync", day.backfill or day.mode == "full_refresh"
        session = Session(day.number, kind, instant(self.machine.now), is_full, day.scans_expired)
        options = ["backfill", "--all"] if day.backfill else ["sync"]
        if not day.backfill:
            session.accepts_removals = day.accepts_removals
            options += ["--incremental"] * (day.mode == "incremental") + ["--accept-removals"] * day.accepts_removals
            options += [] if day.max_requests is None else ["--max-requests", f"{day.max_requests}"]
        session.chain = self._chain(session)
        done = self._command(day, random, *options, crash=day.crash)
        for run in read_runs(self.warehouse):
            self.of_runs.setdefault(run["run_id"], session.number)
        self.promises.check(session, self._log)
        report = done.json() if done is not None and done.stdout else {}
        if report.get("state") == "nothing_to_do":
            rows = self.promises.warehouse.accounts.values()
            require(all(row.removed_at for row in rows), "nothing was chosen although there are accounts")
            return None
        if done is None or "run_id" not in report:
            self._check_failed(day.crash, done)
            return None
        self.counts["ended"] += 1
        self._check_report(session, report, done.code)
        return str(report["state"])

    def _check_failed(self, crash: Crash | None, done: Done | None) -> None:
        """Raise Violation if a command failed without a kill or a full disk, or has damaged the snapshot."""
        require(done is None or (crash is not None and not crash.dies), f"a command ended {done}")
        if self.snapshot.exists():
            shown = {run_id for (run_id,) in self.operator.ask("SELECT run_id FROM runs")}
            published = {run["run_id"] for run in read_runs(self.warehouse) if run["published_at"]}
            require(published <= shown, f"the snapshot lacks the published runs {published - shown}")
        else:
            require(not self.counts["ended"], "the snapshot is gone")

    def _check_report(self, session: Session, report: Any, code: int) -> None:  # noqa: ANN401 - any JSON
        rows = self.operator.ask(_OUTCOMES.format(report["run_id"]))
        self._compare(self.promises, self.of_runs)
        outcomes = {(row[0], row[1]): (row[2], row[3]) for row in rows}
        require(len(rows) == len(outcomes), "a partition has two outcomes")
        require(sum(report["outcomes"].values()) == len(rows), f"{len(rows)} outcomes, and {report['outcomes']}")
        self.promises.check_outcomes(outcomes, report["state"])
        require(_CODES[report["state"]] == code, f"exit code {code} for {report['state']}")
        require(report["requests"] == session.requests, f"{report['requests']} requests, {session.requests} sent")
        resumed = [self.of_runs[run_id] for run_id in report["resumed_runs"]]
        require(resumed == session.chain, f"the run resumes {resumed}, and should resume {session.chain}")
        self.counts["recent"] += sum(kind == "recent" for kind, *_ in outcomes.values())

    def _compare(self, promises: Promises, of_runs: dict[str, int]) -> None:
        compare(promises, self.operator.ask, of_runs)
        compare_raw(promises, self.folder / "raw")

    def _chain(self, session: Session) -> list[int]:
        """Return the processes of the runs that this run resumes, newest first."""
        runs = {run["run_id"]: run for run in read_runs(self.warehouse) if run["kind"] == session.kind}
        run = next(iter(runs.values()), None)
        chain: list[dict[str, Any]] = []
        while run is not None and (run["state"] in ("running", "interrupted") or not run["published_at"]):
            chain.append(run)
            run = runs.get(run["resumes"] or "")
        if not chain or session.begun - chain[-1]["started_at"] > WITHIN:
            return []
        return [self.of_runs[run["run_id"]] for run in chain]

    def _keep_up(self, day: Day, upkeep: Upkeep, random: Random) -> None:
        """Run a command that changes nothing of what the warehouse says, or forgets an account."""
        account, arguments = "", [str(upkeep.command)]
        if upkeep.command == "forget":
            present = sorted(self.promises.warehouse.accounts)
            if not present or self.promises.warehouse.forgotten:
                return
            account = random.choice(present)
            arguments += [account, "--yes"]
        self.promises.is_rebuilt |= upkeep.command == "rebuild"
        done = self._command(day, random, *arguments, crash=upkeep.crash)
        if (done is None or done.code) and (account or random.random() < 0.5):
            # What was interrupted is run again; else the next run must find its way.
            done = self._command(day, random, *arguments)
        if done is None or done.code:
            self._check_failed(upkeep.crash, done)
            return
        if account:
            self.promises.forget(account)
            # Compressed data cannot be searched: this is what a search of the disk would find.
            files = [path for path in self.folder.rglob("*") if path.is_file()]
            found = {path.name for path in files if account.encode() in path.read_bytes()}
            require(found <= {"warehouse.duckdb", "analytics.duckdb"}, f"{account} is forgotten, and found in {found}")
        if upkeep.command != "compact":
            self._compare(self.promises, self.of_runs)

    def _restore(self, day: Day, random: Random) -> None:
        """Restore the backup; or some of its files alone, which is refused or changes nothing, and is then undone."""
        if day.restores == "together":
            _copy(self._backup, self.folder)
            self.promises, self.of_runs = copy.deepcopy(self._remembered)
            return
        _copy(self.folder, self._kept)
        pattern = _FILES[str(day.restores)]
        for path in self.folder.rglob(pattern):
            path.unlink()
        for path in self._backup.rglob(pattern):
            shutil.copy2(path, self.folder / path.relative_to(self._backup))
        parts = {path.name for path in self.folder.rglob("raw-*")}
        done = self._command(day, random, "publish")
        lost = parts - {path.name for path in self.folder.rglob("raw-*")}
        require(not lost, f"{day.restores} was restored, and of the raw store this was deleted: {lost}")
        if done is not None and done.code == 0:
            # Nothing else belongs together if the raw store has not changed since.
            promises, of_runs = self._remembered if day.restores == "all but raw" else (self.promises, self.of_runs)
            self._compare(promises, of_runs)
        else:
            refused = done is not None and done.code == 1 and "Fix: " in done.stderr
            require(refused, f"{day.restores} was restored alone: {done}")
            self.counts["alone"] += 1
        _copy(self._kept, self.folder)


def _copy(folder: Path, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder, to)


def simulate(scenario: Scenario, published: Callable[[Path], None] = lambda _: None) -> Result:
    """Simulate a scenario in a temporary folder; `published` is called with the snapshot of each day."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=memory) as folder:
        simulation = Simulation(scenario, Path(folder) / "files", published)
        result = Result(simulation.counts)
        try:
            simulation.run()
        except Exception as error:  # noqa: BLE001 - any error is a finding of this seed
            what = f"{error}" if isinstance(error, Violation) else "".join(traceback.format_exception(error)[-4:])
            result.violation = f"on its {result.counts['days']}th day: {what}"
        result.trace = simulation.trace.hexdigest()
        return result


def run_seed(seed: int, days: int, without: Sequence[str] = ()) -> tuple[Result, str]:
    """Simulate a seed without some parts; return the result, and if it failed what fails, and how to repeat it.

    What fails is made small first: each part is left out without which the seed fails as well.
    """
    scenario, left_out = leave_out(generate(seed, days), *without), [*without]
    result = simulate(scenario)
    if result.violation is None:
        return result, ""
    for part in list_parts(scenario):
        smaller = leave_out(scenario, part)
        if smaller != scenario and (violation := simulate(smaller).violation) is not None:
            scenario, result.violation = smaller, violation
            left_out.append(part)
    command = f"python -m tests.harness --seeds 1 --first {seed} --days {days} --without {' '.join(left_out)}"
    return result, f"{scenario}\n{result.violation}\nRepeat: {command}\n\n"
