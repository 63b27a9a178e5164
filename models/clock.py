"""Time as an argument: the interface of a clock."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The one source of time and sleep; tests pass a virtual one."""

    def now(self) -> datetime:
        """Wall time, aware and in UTC: what is persisted and shown."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards: what waits are measured in, within one process."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let others run for this many seconds."""
        ...
