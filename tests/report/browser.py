"""A headless browser, if one is installed: a page's document, console messages and network requests."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")

# Log messages and requests of the browser itself, unrelated to the page.
_OWN = re.compile(
    r"(chrome|chrome-[a-z]+|devtools|about|data|file):|https?://([a-z0-9-]+\.)*(google|googleapis|gstatic|gvt1)\.com/"
)


@dataclass(frozen=True)
class Seen:
    """The result of opening a page: its document, console messages, and the network addresses it requested."""

    document: str
    console: list[str]
    asked: list[str]


def opened(page: Path, folder: Path) -> Seen:
    """Open a local page in a headless browser without network access; skip the test if there is none."""
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip("No Chromium is installed: `apt-get install chromium` lets this test open the page.")
    log = folder / "net.json"
    # Chromium's sandbox does not work as root, which tests may run as in a container.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    quiet = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
    logs = ["--enable-logging=stderr", f"--log-net-log={log}", f"--user-data-dir={folder / 'profile'}"]
    show = ["--headless=new", "--proxy-server=127.0.0.1:9", "--virtual-time-budget=3000", "--dump-dom", page.as_uri()]
    done = subprocess.run([program, *sandbox, *quiet, *logs, *show], capture_output=True, check=True, timeout=120)
    console = [line for line in done.stderr.decode(errors="replace").splitlines() if "CONSOLE" in line]
    asked = re.findall(r'"url":("(?:[^"\\]|\\.)*")', log.read_text(encoding="utf-8", errors="replace"))
    urls = {json.loads(url) for url in asked}
    return Seen(done.stdout.decode(), console, sorted(url for url in urls if not _OWN.match(url)))
