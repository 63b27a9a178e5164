"""Runs a command of gramhouse in this process, on a virtual clock, without a network, until it ends or is killed.

What a command gets from its machine is replaced where it comes from: the clock, sleep, randomness, the event loop, and
the transport of its HTTP client.
"""

import asyncio
import io
import json
import logging
import os
import random as random_module
import shutil
import sys
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import httpx
import pytest
from httpx_aiohttp import AiohttpTransport

from connectors.sandbox.settings import FIRST_DAY
from flows.cli.app import main
from flows.clock import SystemClock
from tests.harness.loop import Killed, VirtualLoop, run_process, unwind
from tests.harness.points import Crash, Points, installed

T = TypeVar("T")
BEGINNING = datetime.fromtimestamp(FIRST_DAY, UTC)


def instant(seconds: float) -> datetime:
    """Return the time that is so many seconds after the beginning."""
    return BEGINNING + timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a command: its exit code, or None if it was killed, and what it printed."""

    code: int | None
    out: str = ""
    err: str = ""

    @property
    def json(self) -> Any:  # noqa: ANN401 - any JSON
        return json.loads(self.out)


@dataclass
class Machine:
    """A folder of files, and the time in seconds since `BEGINNING`."""

    folder: Path
    now: float = 3600.0
    points: int = 0
    steps: int = 0
    _loop: VirtualLoop | None = field(default=None, init=False)

    def time(self) -> float:
        return self._loop.time() if self._loop else self.now

    def run(
        self,
        arguments: Sequence[str],
        settings: Mapping[str, object],
        *,
        random: Random,
        transport: httpx.AsyncBaseTransport,
        crash: Crash | None = None,
    ) -> Ended:
        """Run a command. If it is killed, the folder has what a killed process leaves; its log is not closed."""
        out, err = io.StringIO(), io.StringIO()
        frozen = self.folder.with_name(f"{self.folder.name}.frozen")
        environment = {f"GRAMHOUSE_{name.upper()}": str(value) for name, value in settings.items()}

        def freeze() -> None:
            if self._loop is not None and not self._loop.killed:
                self._loop.die()
            shutil.copytree(self.folder, frozen)

        points = Points(crash, freeze)
        code: int | None = None
        with pytest.MonkeyPatch.context() as patch, _logging_off():
            patch.setattr(sys, "argv", ["gramhouse", *arguments])
            patch.chdir(self.folder)
            for name in list(os.environ):
                if name.startswith(("GRAMHOUSE_", "PREFECT_")):
                    patch.delenv(name)
            for name, value in environment.items():
                patch.setenv(name, value)
            self._replace_machine(patch, random, transport, points, crash)
            try:
                with redirect_stdout(out), redirect_stderr(err), installed(points):
                    main()
            except SystemExit as ended:
                code = int(ended.code or 0)
            except BaseException:
                # In a killed process, an error is only a result of unwinding.
                if not points.dead:
                    raise
        self.points, self.steps = points.reached, self.steps
        if points.dead:
            shutil.rmtree(self.folder)
            frozen.rename(self.folder)
            return Ended(None, out.getvalue(), err.getvalue())
        return Ended(code, out.getvalue(), err.getvalue())

    def _replace_machine(
        self,
        patch: pytest.MonkeyPatch,
        random: Random,
        transport: httpx.AsyncBaseTransport,
        points: Points,
        crash: Crash | None,
    ) -> None:
        began = self.now

        def pause(seconds: float) -> None:
            self.now += seconds

        async def sleep(_: object, seconds: float) -> None:
            # A shorter sleep would vanish in floating point addition, and a polling loop would never end.
            await asyncio.sleep(max(seconds, 1e-6))

        def run(body: Coroutine[Any, Any, T], **_: object) -> T:
            loop = self._loop = VirtualLoop(self.now, random, dies_at=crash.nth if crash and crash.steps else None)
            try:
                result = run_process(loop, body)
                if loop.killed and not points.dead:
                    points.die()
            finally:
                self.now, self.steps = loop.time(), loop.steps
                unwind(loop)
                self._loop = None
            if points.dead:
                raise Killed
            return result  # type: ignore[return-value]

        async def send(_: AiohttpTransport, request: httpx.Request) -> httpx.Response:
            return await transport.handle_async_request(request)

        patch.setattr(SystemClock, "now", lambda _: instant(self.time()))
        patch.setattr(SystemClock, "monotonic", lambda _: self.time() - began)
        patch.setattr(SystemClock, "sleep", sleep)
        patch.setattr(time, "sleep", pause)
        patch.setattr(os, "urandom", random.randbytes)
        patch.setattr(random_module, "_urandom", random.randbytes)
        patch.setattr(asyncio, "run", run)
        patch.setattr(AiohttpTransport, "handle_async_request", send)


@contextmanager
def _logging_off() -> Iterator[None]:
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
