"""A feed that is added to models/feeds.py is scanned, merged and published."""

import html
import json
import shutil
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from connectors.sandbox.settings import SandboxSettings
from tests.api.server import Api
from tests.operator import COMMAND_LINE, KEY, ROOT, TIMEOUT, Operator

pytestmark = pytest.mark.e2e

ANSWERS = 'Feed("answers", "answer", "answers.list", "/api/v1/accounts/{account_id}/answers"),\n'


class Service(Api):
    """A sandbox with one account, and a feed of four items, two on a page."""

    def __init__(self) -> None:
        super().__init__(SandboxSettings(accounts=1, posts=2, stories=1, change_every=0), shape="graph")
        self.items = ["1", "2", "3", "4"]
        self.text, self.likes = "Nice", 1
        self.asked = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer for the feed; the sandbox answers for everything else."""
        if not scope["path"].endswith("/answers"):
            await super().__call__(scope, receive, send)
            return
        cursor = parse_qs(scope["query_string"].decode()).get("cursor", [""])[0]
        self.asked += 1
        at = int(cursor or 0)
        more = {"text": self.text, "likes": self.likes, "user": {"name": "ben"}, "replies": [{"text": "Thanks"}]}
        following = str(at + 2) if at + 2 < len(self.items) else None
        page = {"items": [{"id": one, **more} for one in self.items[at:][:2]], "next_cursor": following}
        await JSONResponse(page, headers={"X-Correlation-ID": f"{self.asked:026d}"})(scope, receive, send)


@pytest.mark.long
def test_a_feed_is_scanned_merged_rebuilt_and_published(tmp_path: Path) -> None:
    code = tmp_path / "code"
    for package in ("connectors", "flows", "models", "deployments"):
        shutil.copytree(ROOT / package, code / package)
    feeds = code / "models" / "feeds.py"
    text = feeds.read_text(encoding="utf-8")
    feeds.write_text(text.replace('Feed("stories"', f'{ANSWERS}Feed("stories"', 1), encoding="utf-8")

    with Service().serve() as service:
        there = Operator(tmp_path, {"GRAMHOUSE_BASE_URL": service.url, "GRAMHOUSE_API_KEY": KEY})

        def run(*arguments: str, cwd: Path = code) -> str:
            """Run a command of the code in a folder; return its output."""
            process = there.start_python(*COMMAND_LINE, *arguments, cwd=cwd, env={})
            out, err = process.communicate(timeout=TIMEOUT)
            assert process.returncode == 0, out + err
            return out

        # The warehouse has items before the feed is added.
        run("sync", cwd=ROOT)
        run("sync")
        service.items.remove("2")
        service.text, service.likes = "Very nice", 2
        run("sync")

    def check() -> None:
        of_feed = "WHERE surface = 'answers' ORDER BY ALL"
        assert there.ask(f"SELECT media_id, caption, like_count, user__name FROM media {of_feed}") == [
            (one, "Nice", 1, "ben") if one == "2" else (one, "Very nice", 2, "ben") for one in "1234"
        ]
        assert there.ask("SELECT media_id, text FROM media_replies ORDER BY ALL") == [(one, "Thanks") for one in "1234"]

    check()
    raw = "SELECT surface, count(DISTINCT media_id) AS items FROM raw_media GROUP BY ALL ORDER BY ALL"
    assert run("query", raw, "--format", "csv").split() == ["surface,items", "answers,4", "posts,2"]
    assert json.loads(run("status", "--json"))["totals"]["answers"] == 4
    assert json.loads(run("accounts", "--json"))["accounts"][0]["answers"] == 4
    run("report", "page.html")
    assert "4 answers, 2 posts" in html.unescape((code / "page.html").read_text(encoding="utf-8"))
    fresh = "SELECT surface, complete_at IS NOT NULL FROM freshness ORDER BY ALL"
    assert there.ask(fresh) == [("answers", True), ("posts", True), ("stories", True)]
    run("rebuild")
    check()
