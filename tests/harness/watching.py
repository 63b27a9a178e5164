"""Watches a process: what it sends and gets, what is durable, and which runs a later one resumes.

The only part of the harness that knows how: the API is in this process, and a gateway before it limits all requests.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest
from starlette.types import Receive, Scope, Send

from connectors.sandbox.http.requests import RateLimiter
from connectors.state.database import State, open_state_read_only, state_path
from connectors.state.inbox import land
from connectors.state.runs import read_runs as read_state
from connectors.warehouse.merge.removals import Removals, remove_missing
from flows.engine import closing as closing_of_runs
from tests.api.asked import Asked
from tests.api.server import Api
from tests.api.transport import ApiTransport
from tests.harness.promises import Decided, Event, Landed, Sent
from tests.harness.scenario import Day

Log = Callable[[Event], None]
_KEY = "key"
_REFUSED = b"<html>Too many requests</html>"


class Transport(ApiTransport):
    """Logs every request and answer. At the requests `day_changes` of a day, the API advances to its next day."""

    def __init__(self, api: Api, random: Random, log: Log, day: Day, clock: Callable[[], float]) -> None:
        super().__init__(self._pass, latency=lambda: random.random() * day.latency, sent=self._sending, watch=log)
        self._gateway = RateLimiter({_KEY: day.key_limit}, clock)
        self._real, self._day, self._log = api, day, log
        self._number = 0

    def _sending(self, asked: Asked, at: float) -> None:
        self._number += 1
        self._real.day += self._day.day_changes.count(self._number)
        self._log(Sent(at, asked.partition, asked.cursor))

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (wait := self._gateway.admit(_KEY, "", 0)) is None:
            await self._real(scope, receive, send)
            return
        headers = [(b"retry-after", b"%d" % wait)] if self._day.key_status == 503 else []
        await send({"type": "http.response.start", "status": self._day.key_status, "headers": headers})
        await send({"type": "http.response.body", "body": _REFUSED})


@contextmanager
def watched_landings(log: Log) -> Iterator[None]:
    """Log what becomes durable in this block, before the process goes on."""
    write, remove = State.write, remove_missing

    def written(self: State, work: Callable[..., Any], *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as write
        done = write(self, work, *args, **options)
        for one in args[0] if work is land else ():
            partition = one.page.partition if one.page else one.checkpoint.partition if one.checkpoint else None
            where = (partition.account_id, partition.surface) if partition else ("", "")
            page: Literal["page", "unreadable"] = "page" if one.page and one.page.scan_id else "unreadable"
            state = one.checkpoint.state.value if one.checkpoint else None
            log(Landed(where, page if one.page else None, state, one.cooldown.scope if one.cooldown else None))
        return done

    def decide(*args: Any, **options: Any) -> Removals:  # noqa: ANN401 - as remove_missing
        removals = remove(*args, **options)
        log(Decided())
        return removals

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(State, "write", written)
        patch.setattr(closing_of_runs, "remove_missing", decide)
        yield


def read_runs(warehouse: Path) -> list[dict[str, Any]]:
    """Return all runs as the state remembers them, newest first, from the files of a process that has ended."""
    with open_state_read_only(state_path(warehouse)) as state:
        return [] if state is None else state.read(read_state)
