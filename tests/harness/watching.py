"""Watches a process: what it sends and gets, what is durable, and which runs a later one resumes.

The only part of the harness that knows how: the API is in this process.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from connectors.state.database import State, open_state_read_only, state_path
from connectors.state.inbox import land
from connectors.state.runs import read_runs as read_state
from connectors.warehouse.merge.removals import Removals, remove_missing
from flows.engine import closing as closing_of_runs
from models.checkpoint import ScopeCooldown
from tests.api.asked import Asked
from tests.api.server import Answer, Api, ApiTransport, Header
from tests.harness.scenario import Day

# Notes an event: the name of a method of `Promises`, and what it is called with.
Note = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, and what the client got for it, at this time in seconds.

    `status` is 0 if the connection was reset, and None if the client cancelled the request.
    """

    asked: Asked
    received_at: float
    status: int | None
    headers: dict[str, str]
    body: bytes

    @property
    def whole(self) -> bool:
        """Whether the body did not end early."""
        return len(self.body) == int(self.headers.get("content-length", len(self.body)))


class Transport(ApiTransport):
    """Notes every request and answer. At the requests `day_changes` of a day, the API advances to its next day."""

    def __init__(self, api: Api, random: Random, note: Note, day: Day, clock: Callable[[], float]) -> None:
        super().__init__(api)
        self._service, self._day, self._note, self._clock = api, day, note, clock
        self._random = random
        self._number = 0

    async def send(self, path: bytes, query: bytes, headers: Sequence[Header]) -> Answer:
        """Return the answer, after a while. Raises ConnectionResetError if the API resets the connection."""
        asked = Asked.read(path.decode(), query)
        self._number += 1
        self._service.day += self._day.day_changes.count(self._number)
        self._note("sent", asked, self._clock())
        try:
            await self._wait()
            try:
                reply = await super().send(path, query, headers)
            except ConnectionResetError:
                reply = 0, {}, b""
            await self._wait()
        except asyncio.CancelledError:
            self._note("answered", Exchange(asked, self._clock(), None, {}, b""))
            raise
        self._note("answered", Exchange(asked, self._clock(), *reply))
        if reply[0] == 0:
            raise ConnectionResetError
        return reply

    async def _wait(self) -> None:
        await asyncio.sleep(self._random.random() * self._day.latency)


@contextmanager
def watched_landings(note: Note) -> Iterator[None]:
    """Note what becomes durable in this block, before the process goes on."""
    write, remove = State.write, remove_missing

    def written(self: State, work: Callable[..., Any], *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as write
        done = write(self, work, *args, **options)
        for one in args[0] if work is land else ():
            if isinstance(one, ScopeCooldown):
                note("cooled", one.scope)
                continue
            page = None if not one.page else "page" if one.scan_id else "unreadable"
            where = one.partition.account_id, one.partition.surface
            note("landed", where, page, one.checkpoint and one.checkpoint.state.value)
        return done

    def decide(*args: Any, **options: Any) -> Removals:  # noqa: ANN401 - as remove_missing
        removals = remove(*args, **options)
        note("decided")
        return removals

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(State, "write", written)
        patch.setattr(closing_of_runs, "remove_missing", decide)
        yield


def read_runs(warehouse: Path) -> list[dict[str, Any]]:
    """Return all runs as the state remembers them, newest first, from the files of a process that has ended."""
    with open_state_read_only(state_path(warehouse)) as state:
        return [] if state is None else state.read(read_state)
