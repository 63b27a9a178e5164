"""The steps of a run, for whoever tracks it."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")

Say = Callable[[str], None]


class RunStep(Protocol):
    """Runs one step of a run: `name` for the reader of a timeline, `describe` its result in one line of a log."""

    async def __call__(self, name: str, work: Callable[[], Awaitable[T]], describe: Callable[[T], str], /) -> T:
        """Return what `work` returns, and raise what it raises."""
        ...


async def run_directly(_: str, work: Callable[[], Awaitable[T]], __: Callable[[T], str], /) -> T:
    """Run a step with nothing around it."""
    return await work()
