"""Which answers are durable, and which runs a later one resumes: the only part of the harness that knows how."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from connectors.state.inbox import Inbox
from connectors.warehouse.merge.removals import Removals, remove_missing
from flows.engine import closing as closing_of_runs
from models.page_commit import PageCommit
from tests.harness.events import Decided, Landed, Page, Run


def runs(warehouse: Path) -> list[Run]:
    """Return all runs, newest first, from the files of a process that has ended."""
    state = warehouse.with_name(f"{warehouse.name}.state.sqlite")
    if not state.exists():
        return []
    columns = "run_id, kind, state, started_at, resumes, published_at IS NOT NULL"
    with closing(sqlite3.connect(state)) as db:
        # A process may be killed before the file has tables.
        has_runs = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'runs'").fetchone() == (1,)
        query = f"SELECT {columns} FROM runs WHERE run_id IS NOT NULL ORDER BY seq DESC"
        found = db.execute(query).fetchall() if has_runs else []
    return [
        Run(run_id, kind, state, datetime.fromisoformat(started_at), resumes, bool(published))
        for run_id, kind, state, started_at, resumes, published in found
    ]


@contextmanager
def observed(landed: Callable[[Landed | Decided], None], time: Callable[[], float]) -> Iterator[None]:
    """Call `landed` with what becomes durable in this block, before the process goes on."""
    real, remove = Inbox.land, remove_missing

    def land(self: Inbox, commits: Sequence[PageCommit]) -> int:
        last = real(self, commits)
        for one in commits:
            partition = one.page.partition if one.page else one.checkpoint.partition if one.checkpoint else None
            where = (partition.account_id, partition.surface) if partition else ("", "")
            page: Page = None if one.page is None else "page" if one.page.scan_id else "unreadable"
            state = one.checkpoint.state.value if one.checkpoint else None
            cooldown = one.cooldown.scope if one.cooldown else None
            landed(Landed(time(), where, page, state, cooldown))
        return last

    def decide(*args: Any, **options: Any) -> Removals:  # noqa: ANN401 - as remove_missing
        removals = remove(*args, **options)
        landed(Decided())
        return removals

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Inbox, "land", land)
        patch.setattr(closing_of_runs, "remove_missing", decide)
        yield
