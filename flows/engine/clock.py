"""The real clock and id generator, which tests replace."""

import asyncio
import time
from datetime import UTC, datetime
from uuid import uuid4


class SystemClock:
    """Wall time in UTC, and the monotonic clock that waits are measured by."""

    def now(self) -> datetime:
        """Return the time of day, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let others run for so many seconds."""
        await asyncio.sleep(seconds)


def new_id() -> str:
    """Return an id for a run or a scan."""
    return uuid4().hex
