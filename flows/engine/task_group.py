"""Tasks that stand and fall together, and fail with the error itself, not with a group of errors."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from connectors.warehouse.storage.errors import WarehouseError


def first_error(errors: ExceptionGroup[Exception]) -> Exception:
    """Return one error of a group, however deep: what a person can fix first."""
    found: Exception = errors.subgroup(WarehouseError) or errors
    while isinstance(found, ExceptionGroup):
        found = found.exceptions[0]
    return found


@asynccontextmanager
async def fail_fast_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Run tasks as one: the first that fails cancels the others, and what it raised is raised here."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as errors:
        error = first_error(errors)
        # What it came of stays; the group around it says nothing more.
        raise error from error.__cause__
