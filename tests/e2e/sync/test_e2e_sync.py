"""`gramhouse sync` against a server in another process, through a proxy, and with a feed more."""

import asyncio
import html
import json
import shutil
import time
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import pytest
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from connectors.sandbox.settings import SandboxSettings
from tests.api.faults import Action, Rule
from tests.api.server import Api
from tests.harness.against_api import assert_matches_api
from tests.operator import COMMAND_LINE, KEY, ROOT, TIMEOUT, Operator, killed_on_exit
from tests.private_network import BASE_URL, private_network

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]


def test_the_snapshot_matches_the_api(shell: Operator, operator: Operator, service: Api) -> None:
    report = shell.sync()
    accounts = len(service.list_accounts())
    assert (report["state"], sum(report["outcomes"].values())) == ("complete", 1 + 2 * accounts)
    assert_matches_api(shell.ask, service)
    rows = shell.ask("SELECT resource, account_id, surface, count(*) FROM run_outcomes GROUP BY ALL")
    assert [row[-1] for row in rows] == [1] * (1 + 2 * accounts)
    answer = operator.run("query", "--json", "-- How many are there?\nSELECT count(*) AS accounts FROM accounts;")
    assert answer.json()["rows"] == [{"accounts": accounts}]
    again = operator.run("sync")
    assert again.stderr.endswith(f"gramhouse sync of {operator.env['GRAMHOUSE_BASE_URL']}.\n")
    assert "nothing changed" in again.stdout
    assert operator.sync()["media"] == dict.fromkeys(report["media"], 0)
    assert_matches_api(shell.ask, service)
    # Without the libraries that a process of the tests has.
    shell.run("publish", GRAMHOUSE_HIDE="caption:hash,ig_username")
    hidden = "SELECT DISTINCT length(caption), ig_username = account_id FROM media WHERE caption IS NOT NULL"
    assert shell.ask(hidden) == [(32, True)]


def test_an_analyst_with_the_snapshot_open_neither_blocks_nor_is_blocked(operator: Operator, service: Api) -> None:
    operator.sync()
    with duckdb.connect(str(operator.snapshot), read_only=True) as db:

        def look() -> object:
            return db.execute("SELECT count(*), max(started_at) FROM media, runs").fetchone()

        before = look()
        service.day = 1
        service.script.replace([Rule(Action("delay", seconds=0.02))])
        with killed_on_exit(operator.start("sync")) as writing:
            while writing.poll() is None:
                assert look() == before
                time.sleep(0.05)
            assert writing.returncode == 0
        assert look() == before
    assert_matches_api(operator.ask, service)


def test_another_address_or_key_is_refused_in_one_line_and_loses_nothing(operator: Operator, service: Api) -> None:
    operator.run("sync", "--base-url", f"{service.url}/api/v1/")
    rows = "SELECT * EXCLUDE (last_seen_at) FROM media ORDER BY ALL"
    before = operator.ask(rows)
    other = service.url.replace("127.0.0.1", "localhost")
    for command in (["sync"], ["backfill", "--all"]):
        service.requests.clear()
        text = operator.run(*command, code=2, GRAMHOUSE_BASE_URL=other).stderr
        assert f"This warehouse was filled from {service.url}, but the configured address is {other}." in text
        assert ("--rebind" in text, service.requests) == (True, [])
    [line] = operator.run("sync", code=1, GRAMHOUSE_API_KEY="wrong").stdout.strip().splitlines()
    assert (line.count("api_unauthorized"), "check the API key" in line) == (1, True)
    assert operator.ask(rows) == before
    operator.run("sync", "--rebind", GRAMHOUSE_BASE_URL=other)
    runs = [(service.url, "complete", None), (service.url, "failed", "api_unauthorized"), (other, "complete", None)]
    assert operator.ask("SELECT base_url, state, error_code FROM runs ORDER BY seq") == runs
    operator.run("sync", code=2)


PASSWORD = "hunter22"


async def test_a_sync_through_a_proxy_trusts_a_private_authority(
    shell: Operator, operator: Operator, service: Api, tmp_path: Path
) -> None:
    async with private_network(tmp_path, urlsplit(service.url).port or 0) as network:
        network.login = "Basic dXNlcjpodW50ZXIyMg=="
        shell.env |= {
            "GRAMHOUSE_BASE_URL": BASE_URL,
            "HTTPS_PROXY": f"http://user:{PASSWORD}@127.0.0.1:{network.port}",
            "SSL_CERT_FILE": str(network.authority),
        }
        operator.env = shell.env
        both = [
            await asyncio.to_thread(operator.run, "doctor"),
            await asyncio.to_thread(shell.run, "sync", "--verbose"),
        ]
        printed = "".join(done.stdout + done.stderr for done in both)
        assert f"through the proxy 127.0.0.1:{network.port} (HTTPS_PROXY)" in printed
        assert "trusts the certificates of SSL_CERT_FILE" in printed
        assert_matches_api(shell.ask, service)
    stored = b"".join(path.read_bytes() for path in shell.folder.rglob("*") if path.is_file())
    assert PASSWORD.encode() not in stored + printed.encode()


@pytest.mark.parametrize(
    ("command", "variable", "value", "shown"),
    [
        ("sync", "ALL_PROXY", f"socks5h://user:{PASSWORD}@proxy:1080", "SOCKS proxies are not supported"),
        ("up", "SSL_CERT_FILE", "/nowhere/ca.pem", "/nowhere/ca.pem: No such file or directory"),
    ],
)
def test_a_variable_that_cannot_be_used_is_one_line_before_the_first_request(
    operator: Operator, command: str, variable: str, value: str, shown: str
) -> None:
    operator.env |= {"GRAMHOUSE_BASE_URL": "https://api.invalid", variable: value}
    process = operator.run(command, code=2)
    [line] = [line for line in (process.stdout + process.stderr).splitlines() if variable in line]
    assert (shown in line, "Fix: " in line) == (True, True)
    assert PASSWORD not in process.stdout + process.stderr
    assert not operator.warehouse.exists()


ANSWERS = 'Feed("answers", "answer", "answers.list", "/api/v1/accounts/{account_id}/answers"),\n'


class Service(Api):
    """A sandbox with one account, and a feed of four items."""

    def __init__(self) -> None:
        super().__init__(SandboxSettings(accounts=1, posts=2, stories=1, change_every=0))
        self.items = ["1", "2", "3", "4"]
        self.text, self.likes = "Nice", 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer for the feed; the sandbox answers for everything else."""
        if not scope["path"].endswith("/answers"):
            await super().__call__(scope, receive, send)
            return
        more = {"text": self.text, "likes": self.likes, "user": {"name": "ben"}, "replies": [{"text": "Thanks"}]}
        page = {"items": [{"id": one, **more} for one in self.items], "next_cursor": None}
        await JSONResponse(page)(scope, receive, send)


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
