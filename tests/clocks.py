"""Clocks for which no test waits."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 1, 2, 15, tzinfo=UTC)


@dataclass
class VirtualClock:
    """Time that passes only when somebody sleeps, or a test lets it: `passed` seconds since `since`."""

    since: datetime = START
    passed: float = 0.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return self.since + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed

    def days(self, days: float) -> None:
        self.passed += timedelta(days=days).total_seconds()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        until = self.passed + seconds
        # Not 0: a loop that polls would then take the CPU from the threads that merge.
        await asyncio.sleep(0.001)
        self.passed = max(self.passed, until)


class StillClock(VirtualClock):
    """A clock on which a sleep lasts until the test is over."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.Event().wait()


class WakefulClock(VirtualClock):
    """A clock for code that must never sleep."""

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


class Leaping(asyncio.SelectorEventLoop):
    """A loop whose hours pass on demand: every timeout that is due by then has expired, and no test waits."""

    leapt = 0.0

    def time(self) -> float:
        return super().time() + self.leapt


def leap(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Leaping)
    loop.leapt += seconds
