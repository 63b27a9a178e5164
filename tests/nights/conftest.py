"""An operator whose commands run in this process, on a virtual clock, against a sandbox on a socket."""

import asyncio
import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import duckdb
import pytest

from connectors.sandbox.http.access import DEMO_KEY
from flows.clock import SystemClock
from tests.cli_runner import Cli, use_empty_folder
from tests.clocks import VirtualClock
from tests.nights.service import Service

# After every real time, so that nothing in a snapshot is stale by the reader's clock.
NIGHT = datetime(2126, 3, 1, 2, 15, tzinfo=UTC)


@dataclass
class OrderlyClock(VirtualClock):
    """A virtual clock on which the shortest of several waits ends first."""

    waits: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        until = self.passed + seconds
        self.waits.append(until)
        try:
            await asyncio.sleep(0.001)
            while min(self.waits) < until:  # noqa: ASYNC110 - the waits are in the loop of a run, of which there is none yet
                await asyncio.sleep(0.001)
            self.passed = max(self.passed, until)
        finally:
            self.waits.remove(until)


@dataclass(frozen=True)
class Done:
    """What a command returned and printed. A traceback is in `err`, as a user would see it."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """All that was printed, on one line."""
        return " ".join((self.out + self.err).split())

    def json(self) -> Any:  # noqa: ANN401 - JSON is anything
        assert self.out.startswith("{"), self.text
        return json.loads(self.out)


@dataclass
class Operator:
    """Runs commands in an empty folder."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    cli: Cli
    clock: VirtualClock
    serve: Callable[[Service], str]
    settings: dict[str, str] = field(default_factory=dict)

    def set(self, **settings: str | None) -> None:
        """Set variables, `GRAMHOUSE_` apart; None removes one."""
        for name, value in settings.items():
            variable = f"GRAMHOUSE_{name.upper()}"
            if value is None:
                self.monkeypatch.delenv(variable, raising=False)
            else:
                self.monkeypatch.setenv(variable, value)

    def connect(self, service: Service) -> Service:
        """Serve it, and set its address."""
        self.set(base_url=self.serve(service), api_key=DEMO_KEY)
        return service

    def type(self, text: bytes) -> None:
        """Put bytes into standard input."""
        self.monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(text), encoding="utf-8"))

    def run(self, *arguments: str) -> Done:
        try:
            return Done(*self.cli(*arguments))
        except Exception:  # noqa: BLE001 - a user would see it
            return Done(70, "", traceback.format_exc())

    def sync(self, *arguments: str) -> Done:
        """Sync, and let the clock advance to the next night."""
        done = self.run("sync", *arguments)
        self.clock.days(1)
        return done

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.folder / "data/analytics.duckdb"), read_only=True) as db:
            return db.execute(query).fetchall()

    def count(self, table: str, condition: str = "true") -> int:
        return int(self.ask(f"SELECT count(*) FROM {table} WHERE {condition}")[0][0])

    def shown(self) -> str:
        """Return every value of the snapshot, as text."""
        with duckdb.connect(str(self.folder / "data/analytics.duckdb"), read_only=True) as db:
            found = (
                "SELECT DISTINCT schema_name, table_name FROM duckdb_columns() WHERE database_name = current_database()"
            )
            names = [
                f'"{schema}"."{table}"' for schema, table in db.execute(found).fetchall() if schema in ("main", "core")
            ]
            return "\n".join(str(db.execute(f"FROM {name}").fetchall()) for name in sorted(names))


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Operator]:
    use_empty_folder(tmp_path, monkeypatch)
    clock = OrderlyClock(NIGHT)
    for name in ("now", "monotonic", "sleep"):
        monkeypatch.setattr(SystemClock, name, staticmethod(getattr(clock, name)))
    with ExitStack() as stack:

        def serve(service: Service) -> str:
            return stack.enter_context(service.serve()).url

        yield Operator(tmp_path, monkeypatch, Cli(monkeypatch, capsys), clock, serve)
