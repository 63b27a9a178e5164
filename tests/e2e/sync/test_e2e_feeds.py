"""A feed that is declared by one entry in models/feeds.py is scanned, resumed, merged, removed and published."""

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.e2e.processes import KEY, ROOT, TIMEOUT, Operator, killed_on_exit, wait_until

pytestmark = pytest.mark.e2e

ACCOUNT = "11111111-1111-4111-8111-111111111111"
ENTRY = 'Feed("tagged", "tagged item", "accounts.tagged.list", "/api/v1/accounts/{account_id}/tagged"),'
# The command line, at a time that is some hours ahead.
RUN = """
import datetime, flows.clock
shift = datetime.timedelta(hours={})
flows.clock.SystemClock.now = lambda self: datetime.datetime.now(datetime.UTC) + shift
from flows.cli.__main__ import run
run()
"""


@dataclass
class Service:
    """An API with one account, whose `tagged` items have two on a page; the answer to the second page can be held."""

    items: list[str] = field(default_factory=lambda: ["1", "2", "3", "4"])
    asked: list[str] = field(default_factory=list)
    holds: bool = False
    is_held: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def answer(self, path: str, cursor: str | None) -> object:
        if path == "/api/v1/accounts":
            account = {"id": ACCOUNT, "public_id": "annaannaanna", "ig_username": "anna", "status": "active"}
            return {"items": [account], "next_cursor": None}
        if path != f"/api/v1/accounts/{ACCOUNT}/tagged":
            return {"items": [], "next_cursor": None}
        self.asked.append(cursor or "")
        if self.holds and cursor:
            self.is_held.set()
            threading.Event().wait(TIMEOUT)
        at = int(cursor or 0)
        cursor = str(at + 2) if at + 2 < len(self.items) else None
        return {
            "items": [{"id": one, "tagged_by": "ben", "likes": 1} for one in self.items[at:][:2]],
            "next_cursor": cursor,
        }


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            target = urlsplit(self.path)
            body = json.dumps(service.answer(target.path, parse_qs(target.query).get("cursor", [None])[0])).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        service.url = f"http://127.0.0.1:{server.server_address[1]}"
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield service
        server.shutdown()
        thread.join()


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """The project's code with one more feed."""
    for package in ("connectors", "flows", "models", "deployments"):
        shutil.copytree(ROOT / package, tmp_path / "code" / package)
    feeds = tmp_path / "code" / "models" / "feeds.py"
    text = feeds.read_text(encoding="utf-8")
    first = text.index('Feed("stories"')
    feeds.write_text(f"{text[:first]}{ENTRY}\n            {text[first:]}", encoding="utf-8")
    return tmp_path / "code"


def _sync(there: Operator, code: Path, hours: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN.format(hours), "sync", "--json"],
        env=there.environment(),
        cwd=code,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _ended(process: subprocess.Popen[str]) -> None:
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, out + err
    assert json.loads(out)["state"] == "complete"


def test_a_feed_of_one_entry_is_scanned_resumed_merged_removed_and_published(
    tmp_path: Path, code: Path, service: Service
) -> None:
    there = Operator(tmp_path, {"GRAMHOUSE_BASE_URL": service.url, "GRAMHOUSE_API_KEY": KEY})
    service.holds = True
    with killed_on_exit(_sync(there, code, 0)) as process:
        wait_until(lambda: service.is_held.is_set() or process.poll() is not None, "the second page")
        assert process.poll() is None, process.communicate()
    service.holds = False
    _ended(_sync(there, code, 0))
    # The first page had landed before the kill.
    assert service.asked == ["", "2", "2"]
    service.items.remove("2")
    for hours in (3, 6):
        _ended(_sync(there, code, hours))
    query = "SELECT surface, media_id, removal, tagged_by FROM media ORDER BY media_id"
    assert there.ask(query) == [("tagged", one, "removed" if one == "2" else None, "ben") for one in "1234"]
    assert there.ask("SELECT count(*) FROM freshness WHERE surface = 'tagged' AND complete_at IS NOT NULL") == [(1,)]
    assert there.ask("SELECT DISTINCT outcome FROM run_outcomes") == [("complete",)]
