"""Renewing the report after a publish. An error is reported in one line, and the run continues."""

import asyncio
from pathlib import Path

from connectors.warehouse.storage.errors import first_line
from flows.reporting.notices import notices


async def renew(snapshot: Path, report: Path) -> Path | None:
    """Write the report of a snapshot that was just published; return None if this fails. Raises nothing."""
    # Imported here because most runs do not renew a report.
    from flows.reporting.page.write import write  # noqa: PLC0415

    try:
        await asyncio.to_thread(write, snapshot, report)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the page, the snapshot is published
        notices.warning(f"The report was not updated: {first_line(error)}")
        return None
    return report
