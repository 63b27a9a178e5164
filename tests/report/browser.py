"""A real browser, where one is installed: what it made of a page, what its console says, and what it asked for."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")


# What the browser shows or asks of its maker by itself, whatever the page is.
_OWN = re.compile(
    r"(chrome|chrome-[a-z]+|devtools|about|data|file):|https?://([a-z0-9-]+\.)*(google|googleapis|gstatic|gvt1)\.com/"
)


@dataclass(frozen=True)
class Seen:
    """What a browser made of a page: its document, its console, and the addresses on the net that it asked for."""

    document: str
    console: list[str]
    asked: list[str]


def program() -> str:
    """Return the browser; skips the test where there is none."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    return found or pytest.skip("No Chromium is installed: `apt-get install chromium` lets this test open the page.")


def opened(page: Path, folder: Path) -> Seen:
    """Open a page of this machine in a headless browser that reaches no network."""
    log = folder / "net.json"
    arguments = [
        program(),
        "--headless=new",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--proxy-server=127.0.0.1:9",
        "--enable-logging=stderr",
        f"--log-net-log={log}",
        f"--user-data-dir={folder / 'profile'}",
        "--virtual-time-budget=3000",
        "--dump-dom",
        # Its own sandbox does not start as root, as whom tests may run in a container.
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
        page.as_uri(),
    ]
    done = subprocess.run(arguments, capture_output=True, check=True, timeout=120)
    console = [line for line in done.stderr.decode(errors="replace").splitlines() if "CONSOLE" in line]
    asked = re.findall(r'"url":("(?:[^"\\]|\\.)*")', log.read_text(encoding="utf-8", errors="replace"))
    urls = {json.loads(url) for url in asked}
    return Seen(done.stdout.decode(), console, sorted(url for url in urls if not _OWN.match(url)))
