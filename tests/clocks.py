"""Virtual clocks, so that no test has to wait."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 1, 2, 15, tzinfo=UTC)


@dataclass
class VirtualClock:
    """A clock that advances only in `sleep`, of which the shortest ends first, or when a test advances it.

    It is `passed` seconds since `since`.
    """

    since: datetime = START
    passed: float = 0.0
    slept: list[float] = field(default_factory=list)
    _waits: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return self.since + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed

    def days(self, days: float) -> None:
        self.passed += timedelta(days=days).total_seconds()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        until = self.passed + seconds
        self._waits.append(until)
        try:
            # Not 0: a polling loop would take the CPU from the merge threads.
            await asyncio.sleep(0.001)
            while min(self._waits) < until:  # noqa: ASYNC110 - the waits are of several loops
                await asyncio.sleep(0.001)
            self.passed = max(self.passed, until)
        finally:
            self._waits.remove(until)


class StillClock(VirtualClock):
    """A clock whose `sleep` never returns."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.Event().wait()


class WakefulClock(VirtualClock):
    """A clock whose `sleep` fails the test."""

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)
