"""The real clock and id generator, which tests replace."""

import asyncio
import time
from datetime import UTC, datetime
from uuid import uuid4


class SystemClock:
    """The system's wall time in UTC, and its monotonic clock, which measures waits."""

    def now(self) -> datetime:
        """Return the time of day, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling coroutine for this many seconds."""
        await asyncio.sleep(seconds)


def new_id() -> str:
    """Return an id for a run or a scan."""
    return uuid4().hex
