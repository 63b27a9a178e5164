"""Fills a warehouse with its state as a run does: pages land, and are merged."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from connectors.state.inbox import land as land_all
from connectors.state.runs import begin_run
from flows.config.settings import Settings
from flows.engine.warehouse import Files, open_files
from models.checkpoint import Checkpoint, Landing
from models.feeds import Partition
from tests.warehouse.days import at


class Scan:
    """A scan whose pages land, one a minute."""

    def __init__(self, partition: Partition, scan_id: str, hour: float) -> None:
        self.checkpoint = Checkpoint(partition, scan_id, "run-1", at(hour), at(hour))

    def page(self, *items: object, last: bool = True) -> Landing:
        """Return the next page."""
        before, cursor = self.checkpoint, None if last else "next"
        number = before.pages + 1
        when = before.started_at + timedelta(minutes=number)
        self.checkpoint = before.advance(cursor, items=len(items), at=when)
        body = json.dumps({"items": items, "next_cursor": cursor}).encode()
        correlation_id = f"{before.scan_id}-{number}"
        of = before.partition, "run-1", before.scan_id
        return Landing(*of, number, when, correlation_id, body, self.checkpoint)


@contextmanager
def opened(warehouse: Path) -> Iterator[Files]:
    """Open a warehouse with its state; create them if necessary."""
    with open_files(Settings(warehouse=warehouse), "gramhouse sync", now=at(0)) as files:
        yield files


def begin(files: Files, run_id: str = "run-1", kind: str = "sync", **about: Any) -> None:  # noqa: ANN401 - of begin_run
    given = {"selection": None, "reason": None, **about}
    files.state.write(begin_run, run_id, kind, pid=1, now=at(0), within=timedelta(), version="1", **given)


def land(files: Files, *landings: Landing) -> None:
    """Let these land, and merge them."""
    files.state.write(land_all, landings)
    files.merge(files.db)
