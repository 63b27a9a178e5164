# ruff: noqa: INP001 - a script next to its screenshots
"""Takes the screenshots of Prefect's UI for docs/operator.md: `make docs`.

It runs the sandbox and `gramhouse up` in a temporary folder, simulates a few days, one of them with failures, and opens
the pages in headless Chromium. It leaves only the screenshots next to this file.
"""

import asyncio
import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.serve import in_thread
from connectors.sandbox.settings import SandboxSettings

HERE = Path(__file__).parent
KEY = "sandbox-demo-key"
WIDTH, HEIGHT = 1400, 900

PATIENCE = 120.0
PAUSE = 0.3
# How long a page may draw, in seconds, after it shows the expected text.
DRAW = 1.5
# The same for the timeline: it is animated, and drawn on a canvas, whose text cannot be read.
TIMELINE = 5.0

# Scrolls to the innermost element whose text starts with WORD. The lists scroll, not the window.
SCROLL = """
[...document.querySelectorAll("main *, form *, h1, h2, h3, a, label")]
  .filter(each => each.innerText?.trim().startsWith(WORD))
  .sort((one, other) => one.innerText.length - other.innerText.length)[0]
  ?.scrollIntoView({block: "start"})
"""

# The names of Chromium's program on Debian and on other systems.
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class Patient(httpx.HTTPTransport):
    """Repeats a request while Prefect's server reports that its SQLite is busy, as Prefect's own client does."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and repeat it while the response is 503."""
        end = time.monotonic() + PATIENCE
        while True:
            answer = super().handle_request(request)
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE or time.monotonic() > end:
                return answer
            answer.close()
            time.sleep(PAUSE)


class Rig:
    """A sandbox and a `gramhouse up`, with the actions of an operator."""

    def __init__(self, service: str, prefect: str) -> None:
        self.prefect = prefect
        self._service = httpx.Client(base_url=service, timeout=30)
        self._api = httpx.Client(base_url=f"{prefect}/api", timeout=30, transport=Patient())

    def ask(self, path: str, document: object = None) -> Any:  # noqa: ANN401 - any JSON
        """Send a request to Prefect's API: POST with a document, GET without one."""
        answer = self._api.get(path) if document is None else self._api.post(path, json=document)
        answer.raise_for_status()
        return answer.json()

    def deployment(self, name: str) -> str:
        """Return a deployment's id."""
        return next(str(each["id"]) for each in self.ask("/deployments/filter", {}) if each["name"] == name)

    def run(self, name: str, **options: object) -> str:
        """Run a deployment, wait until it ends, and return the id of the flow run."""
        document = {"parameters": {"options": {"expert": {"busy_wait": 600}, **options}}} if options else {}
        run = str(self.ask(f"/deployments/{self.deployment(name)}/create_flow_run", document)["id"])
        until(lambda: self.ask(f"/flow_runs/{run}")["state_type"] in {"COMPLETED", "FAILED", "CANCELLED", "CRASHED"})
        return run

    def page_of(self, run: str) -> str:
        """Return the id of the artifact with a run's summary."""
        wanted = {"artifacts": {"flow_run_id": {"any_": [run]}, "key": {"any_": ["gramhouse-run"]}}}
        return str(self.ask("/artifacts/filter", wanted)[0]["id"])

    def next_day(self) -> None:
        """Advance the catalogue of the sandbox by one day."""
        self._service.post("/_sandbox/day").raise_for_status()

    def fault(self, **fault: object) -> None:
        """Create a fault of the sandbox that lasts until it is deleted."""
        self._service.post("/_sandbox/faults", json={**fault, "times": None}).raise_for_status()

    def remove_faults(self) -> None:
        """Delete all faults of the sandbox."""
        self._service.delete("/_sandbox/faults").raise_for_status()

    def active(self) -> list[str]:
        """Return the ids of the active accounts."""
        page = self._service.get("/api/v1/accounts?limit=50", headers={"Authorization": f"Bearer {KEY}"})
        return [each["id"] for each in page.json()["items"] if each["status"] == "active"]


def until(true: Callable[[], bool]) -> None:
    """Wait until a condition is true. Raises TimeoutError after PATIENCE seconds."""
    end = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(PAUSE)


@contextmanager
def rig(folder: Path) -> Iterator[Rig]:
    """Start the sandbox, and `gramhouse up` as a user does: with settings only."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    own = {name: value for name, value in os.environ.items() if not name.startswith(("GRAMHOUSE_", "PREFECT_"))}
    settings = {"GRAMHOUSE_API_KEY": KEY, "GRAMHOUSE_PREFECT_PORT": str(port)}
    log = folder / "up.log"
    # Five simulated days, of which none is in the future.
    first = datetime.now(UTC).replace(hour=2, minute=0, second=0, microsecond=0) - timedelta(days=4)
    sandbox = Sandbox(SandboxSettings(first_day=int(first.timestamp())))
    with in_thread(sandbox) as api, log.open("wb") as file:
        up = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", "up"],
            cwd=folder,
            env={**own, **settings, "GRAMHOUSE_BASE_URL": api},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        try:
            until(lambda: up.poll() is not None or b"Stop with Ctrl-C" in log.read_bytes())
            if up.poll() is not None:
                sys.exit(log.read_text(encoding="utf-8"))
            yield Rig(api, f"http://127.0.0.1:{port}")
        finally:
            up.terminate()
            up.wait()


def live(at: Rig) -> str:
    """Simulate five days of runs. Return the nightly run of the fourth day, which has failures."""
    at.run("nightly")
    for _ in range(2):
        at.next_day()
        at.run("nightly")
        at.run("due", due=True, surfaces=["stories"])
    at.next_day()
    denied, limited, gone = at.active()[3:6]
    at.fault(code="api_account_not_granted", account_id=denied)
    at.fault(code="rate_limited", retry_after=7200, account_id=limited, surface="posts")
    at.fault(code="api_automation_media_not_found", account_id=gone, surface="stories")
    trouble = at.run("nightly")
    at.remove_faults()
    at.run("backfill", accounts=["no.such.account"])
    at.run("backfill", failed=True, dry_run=True)
    at.run("backfill", failed=True, reason="the key was granted the account again")
    at.run("publish")
    at.next_day()
    at.run("nightly")
    return trouble


class Browser:
    """A page of headless Chromium, controlled with the DevTools protocol."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = count(1)

    async def tell(self, method: str, **parameters: object) -> Any:  # noqa: ANN401 - any JSON
        """Send a command of the protocol and return its result."""
        number = next(self._numbers)
        await self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while (answer := json.loads(await self._socket.recv())).get("id") != number:
            pass
        if "error" in answer:
            raise RuntimeError(answer["error"]["message"])
        return answer["result"]

    async def evaluate(self, expression: str) -> Any:  # noqa: ANN401 - any JSON
        """Evaluate an expression in the page and return its value."""
        output = await self.tell("Runtime.evaluate", expression=expression, returnByValue=True)
        return output["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true in the page. Raises TimeoutError after a quarter of PATIENCE."""
        end = time.monotonic() + PATIENCE / 4
        while not await self.evaluate(expression):
            if time.monotonic() > end:
                message = f"{expression}; the page shows: {await self.evaluate('document.body.innerText')}"
                raise TimeoutError(message)
            await asyncio.sleep(PAUSE)

    async def open(self, url: str, *words: str) -> None:
        """Open a page, and wait until it shows all of these words."""
        await self.tell("Page.navigate", url=url)
        for word in words:
            await self.until(f"document.body && document.body.innerText.includes({json.dumps(word)})")
        await asyncio.sleep(DRAW)

    async def scroll(self, word: str) -> None:
        """Scroll to the innermost element whose text starts with a word."""
        await self.evaluate(SCROLL.replace("WORD", json.dumps(word)))
        await asyncio.sleep(DRAW)

    async def shoot(self, name: str) -> None:
        """Take a screenshot of the visible part of the page."""
        picture = await self.tell("Page.captureScreenshot", format="png")
        (HERE / f"{name}.png").write_bytes(base64.b64decode(picture["data"]))


def program() -> str:
    """Return the path of the installed browser; exit if there is none."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    return found or sys.exit(f"Chromium was not found. Fix: install one of {', '.join(BROWSERS)}.")


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Browser]:
    """Start Chromium with an empty page, and stop it at the end."""
    arguments = [
        "--headless=new",
        "--remote-debugging-port=0",
        f"--user-data-dir={folder}",
        f"--window-size={WIDTH},{HEIGHT}",
        "--hide-scrollbars",
        "--no-first-run",
        "--disable-background-networking",
        # Chromium's sandbox does not start as root, the user of many containers. Only our own pages are opened.
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
        "about:blank",
    ]
    with (folder / "chromium.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(program(), *arguments, stdout=log, stderr=log)
    try:
        ready = folder / "DevToolsActivePort"
        await asyncio.to_thread(until, lambda: ready.exists() and len(ready.read_text().split()) == 2)
        port = ready.read_text().split()[0]
        async with httpx.AsyncClient() as client:
            pages = (await client.get(f"http://127.0.0.1:{port}/json/list")).json()
        address = next(each["webSocketDebuggerUrl"] for each in pages if each["type"] == "page")
        async with connect(address, max_size=None) as socket:
            page = Browser(socket)
            await page.tell("Page.enable")
            await page.tell(
                "Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False
            )
            yield page
    finally:
        process.terminate()
        await process.wait()


async def photograph(at: Rig, trouble: str, folder: Path) -> None:
    """Take all screenshots."""
    ui = f"{at.prefect}/v2"
    async with browser(folder) as page:
        await page.open(f"{ui}/deployments", "nightly", "publish")
        await page.shoot("deployments")
        await page.open(f"{ui}/runs?range=past-hour", "nightly", "Completed")
        await page.scroll("Items per page")
        await page.shoot("runs")
        await page.open(f"{ui}/runs/flow-run/{trouble}", "Completed", "scans")
        await asyncio.sleep(TIMELINE)
        await page.shoot("run")
        await page.open(f"{ui}/artifacts/artifact/{at.page_of(trouble)}", "Action required")
        await page.shoot("summary")
        await page.open(f"{ui}/deployments/deployment/{at.deployment('backfill')}/run", "Accounts", "Dry run")
        await page.scroll("Accounts (Optional)")
        await page.shoot("backfill")


def main() -> None:
    """Take the screenshots."""
    with tempfile.TemporaryDirectory(prefix="gramhouse-screenshots-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        profile = folder / "browser"
        profile.mkdir()
        with rig(folder) as at:
            asyncio.run(photograph(at, live(at), profile))


if __name__ == "__main__":
    main()
