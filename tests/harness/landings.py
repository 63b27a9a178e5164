"""Which answers are durable, and which runs a later one resumes: the only part of the harness that knows how."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from connectors.warehouse.ingest.landing.segments import Segments
from models.page_commit import PageCommit
from tests.harness.events import Landed, Page, Run


def runs(warehouse: Path) -> list[Run]:
    """Return all runs, newest first, from the files of a process that has ended."""
    if not warehouse.exists():
        return []
    with duckdb.connect(str(warehouse), read_only=True) as db:
        db.execute("SET TimeZone = 'UTC'")
        if not db.execute("FROM duckdb_tables() WHERE schema_name = 'core' AND table_name = 'runs'").fetchall():
            return []
        columns = "run_id, kind, state, started_at, resumes, published_at IS NOT NULL"
        return [Run(*row) for row in db.execute(f"SELECT {columns} FROM core.runs ORDER BY seq DESC").fetchall()]


@contextmanager
def observed(landed: Callable[[Landed], None], time: Callable[[], float]) -> Iterator[None]:
    """Call `landed` with what becomes durable in this block, before the process goes on."""
    real = Segments.append

    def append(self: Segments, commits: Sequence[PageCommit]) -> int:
        after = real(self, commits)
        for one in commits:
            partition = one.page.partition if one.page else one.checkpoint.partition if one.checkpoint else None
            where = (partition.account_id, partition.surface) if partition else ("", "")
            page: Page = None if one.page is None else "page" if one.page.scan_id else "unreadable"
            state = one.checkpoint.state.value if one.checkpoint else None
            cooldown = one.cooldown.scope if one.cooldown else None
            landed(Landed(time(), where, page, state, cooldown))
        return after

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Segments, "append", append)
        yield
