# ruff: noqa: INP001 - a script beside its pictures
"""Photographs of a snapshot's report for README.md and docs/report.md: `python docs/screenshots/report.py SNAPSHOT`.

It makes the report in a temporary folder and photographs it with headless Chromium: on a screen, on a dark one, and on
a phone. Nothing of it stays but the pictures beside this file.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from take import browser

from flows.reporting.page.write import write

_SCREEN = (1200, 900)
_PHONE = (390, 844)

# Picture, size, colour scheme, and the heading that is brought to the top; empty: the top of the page.
_PICTURES = (
    ("report", _SCREEN, "light", ""),
    ("report-growth", _SCREEN, "light", "Growth of recent posts"),
    ("report-dark", _SCREEN, "dark", "Engagement"),
    ("report-phone", _PHONE, "light", "Engagement"),
)


async def photograph(page: Path, folder: Path) -> None:
    """Take every picture."""
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
    """Take the pictures of a snapshot's report."""
    with tempfile.TemporaryDirectory(prefix="gramhouse-screenshots-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        profile = folder / "browser"
        profile.mkdir()
        page = write(snapshot, folder / "report.html").path
        asyncio.run(photograph(page, profile))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
