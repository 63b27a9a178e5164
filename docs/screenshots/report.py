# ruff: noqa: INP001 - a script next to its screenshots
"""Takes the screenshots of the report for README.md and docs/analyst.md: `python docs/screenshots/report.py SNAPSHOT`.

It writes the report of a snapshot to a temporary folder and opens it in headless Chromium: on a desktop screen, in dark
mode, and on a phone. It leaves only the screenshots next to this file.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from take import browser

from flows.reporting.page import write_page

_SCREEN = (1200, 900)
_PHONE = (390, 844)

# Screenshot, size, colour scheme, and the heading to scroll to; empty: the top of the page.
_PICTURES = (
    ("report", _SCREEN, "light", ""),
    ("report-dark", _SCREEN, "dark", "Engagement"),
    ("report-phone", _PHONE, "light", "Top posts"),
)


async def photograph(page: Path, folder: Path) -> None:
    """Take all screenshots."""
    async with browser(folder) as opened:
        await opened.open(page.as_uri(), "gramhouse report")
        for name, (width, height), scheme, heading in _PICTURES:
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < height}
            await opened.tell("Emulation.setDeviceMetricsOverride", **size)
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            await opened.tell("Emulation.setEmulatedMedia", features=features)
            top = f"[...document.querySelectorAll('h2')].find(each => each.innerText === '{heading}')?.parentElement"
            await opened.evaluate(f"({top} ?? document.body).scrollIntoView({{behavior: 'instant', block: 'start'}})")
            await asyncio.sleep(1)
            await opened.shoot(name)


def main(snapshot: Path) -> None:
    """Take the screenshots of a snapshot's report."""
    with tempfile.TemporaryDirectory(prefix="gramhouse-screenshots-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        profile = folder / "browser"
        profile.mkdir()
        page = folder / "report.html"
        write_page(snapshot, page)
        asyncio.run(photograph(page, profile))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
