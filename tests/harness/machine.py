"""Runs a command of gramhouse in this process, on a virtual clock, without a network, until it ends or is killed.

What a command gets from its machine is replaced where it comes from: the clock, sleep, randomness, the event loop, and
the transport of its HTTP client.
"""

import asyncio
import logging
import os
import random as random_module
import shutil
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import httpx
import pytest
from httpx_aiohttp import AiohttpTransport

from connectors.sandbox.settings import FIRST_DAY
from flows.clock import SystemClock
from tests.harness.loop import VirtualLoop, run_process
from tests.harness.points import Crash, Killed, Points, installed
from tests.operator import Done, Operator

T = TypeVar("T")
BEGINNING = datetime.fromtimestamp(FIRST_DAY, UTC)


def instant(seconds: float) -> datetime:
    """Return the time that is so many seconds after the beginning."""
    return BEGINNING + timedelta(seconds=seconds)


@dataclass
class Machine:
    """An operator's folder and settings, and the time in seconds since `BEGINNING`."""

    operator: Operator
    now: float = 3600.0
    points: Points = field(default_factory=lambda: Points(None, lambda: None, Path()))
    _loop: VirtualLoop | None = None

    def time(self) -> float:
        return self._loop.time() if self._loop else self.now

    def run(
        self, *arguments: str, random: Random, transport: httpx.AsyncBaseTransport, crash: Crash | None = None
    ) -> Done | None:
        """Run a command. None: it was killed, and the folder has what a killed process leaves."""
        folder = self.operator.folder
        frozen = folder.with_name(f"{folder.name}.frozen")

        def freeze() -> None:
            self.now = self.time()
            if self._loop is not None:
                self._loop.stop()
            shutil.copytree(folder, frozen)

        self.points = points = Points(crash, freeze, self.operator.snapshot)
        # Errors end a command; what else it logs is of no interest.
        logging.disable(logging.WARNING)
        try:
            with pytest.MonkeyPatch.context() as patch, installed(points):
                self._replace_machine(patch, random, transport)
                done = self.operator.run(*arguments, code=None)
            if not points.dead:
                return done
        except BaseException:
            # In a killed process, an error is only a result of unwinding.
            if not points.dead:
                raise
        finally:
            logging.disable(logging.NOTSET)
        shutil.rmtree(folder)
        frozen.rename(folder)
        return None

    def _replace_machine(self, patch: pytest.MonkeyPatch, random: Random, transport: httpx.AsyncBaseTransport) -> None:
        began, points = self.now, self.points

        def pause(seconds: float) -> None:
            self.now += seconds

        async def sleep(_: object, seconds: float) -> None:
            points.reach()
            # A shorter sleep would vanish in floating point addition, and a polling loop would never end.
            await asyncio.sleep(max(seconds, 1e-6))

        async def send(_: AiohttpTransport, request: httpx.Request) -> httpx.Response:
            points.reach()
            return await transport.handle_async_request(request)

        def run(body: Coroutine[Any, Any, T], **_: object) -> T:
            loop = self._loop = VirtualLoop(self.now, random)
            try:
                result = run_process(loop, body)
            finally:
                self.now = self.now if points.dead else loop.time()
                self._loop = None
            if points.dead:
                raise Killed
            return result

        patch.setattr(SystemClock, "now", lambda _: instant(self.time()))
        patch.setattr(SystemClock, "monotonic", lambda _: self.time() - began)
        patch.setattr(SystemClock, "sleep", sleep)
        patch.setattr(AiohttpTransport, "handle_async_request", send)
        patch.setattr(asyncio, "run", run)
        patch.setattr(time, "sleep", pause)
        patch.setattr(os, "urandom", random.randbytes)
        patch.setattr(random_module, "_urandom", random.randbytes)
