"""Renewing the report after a publish: what goes wrong with it is reported in one line, and spoils no run."""

import asyncio
from pathlib import Path

from flows.reporting.words import Say


async def renew(snapshot: Path, report: Path, *, say: Say) -> Path | None:
    """Make the report of a snapshot that was just published; None when it could not be made. Raises nothing."""
    # Most runs renew none.
    from flows.reporting.page.write import write  # noqa: PLC0415

    try:
        await asyncio.to_thread(write, snapshot, report)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the page, the snapshot is published
        lines = str(error).splitlines() or [type(error).__name__]
        say(f"The report was not updated: {lines[0]}")
        return None
    return report
