"""An operator whose commands run in this process, on a virtual clock, against an API on a socket."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from flows.clock import SystemClock
from tests import operator as everywhere
from tests.api.faults import Action
from tests.api.listed import ListedApi
from tests.clocks import VirtualClock
from tests.operator import KEY, Done, use_empty_folder

# After every real time, so that nothing in a snapshot is stale by the reader's clock.
NIGHT = datetime(2126, 3, 1, 2, 15, tzinfo=UTC)

HTML = b"<html><head><title>Gateway</title></head><body>Access denied by policy.</body></html>"


def gateway(status: int, **headers: str) -> Action:
    """Return the answer of a gateway: without the service's envelope and X-Correlation-ID."""
    return Action("raw", status=status, body=HTML, headers={"Content-Type": "text/html", **headers}, correlated=False)


@dataclass(kw_only=True)
class Operator(everywhere.Operator):
    clock: VirtualClock
    servers: ExitStack

    def set(self, **settings: str) -> None:
        self.env |= {f"GRAMHOUSE_{name.upper()}": value for name, value in settings.items()}

    def connect(self, **given: Any) -> ListedApi:  # noqa: ANN401 - as ListedApi
        """Serve an API, and set its address."""
        service = self.servers.enter_context(ListedApi(clock=self.clock, **given).serve())
        self.set(base_url=service.url, api_key=KEY)
        return service

    def night(self, *arguments: str, code: int | None = 0) -> Done:
        """Sync, and let the clock advance to the next night."""
        done = self.run("sync", *arguments, code=code)
        self.clock.days(1)
        return done

    def count(self, table: str, condition: str = "true") -> int:
        return int(self.ask(f"SELECT count(*) FROM {table} WHERE {condition}")[0][0])

    def shown(self) -> str:
        """Return every value of the snapshot, as text."""
        tables = "SELECT DISTINCT schema_name, table_name FROM duckdb_columns() WHERE schema_name IN ('main', 'core')"
        names = self.ask(f"{tables} AND database_name = current_database() ORDER BY ALL")
        return "\n".join(str(self.ask(f'FROM "{schema}"."{table}"')) for schema, table in names)


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    use_empty_folder(tmp_path, monkeypatch)
    clock = VirtualClock(NIGHT)
    for name in ("now", "monotonic", "sleep"):
        monkeypatch.setattr(SystemClock, name, staticmethod(getattr(clock, name)))
    with ExitStack() as servers:
        yield Operator(tmp_path, here=True, cwd=tmp_path, clock=clock, servers=servers)
