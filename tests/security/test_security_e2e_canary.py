"""An API that echoes the key in every response, and runs that fail in every way: the key is never written."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from starlette.types import Receive, Scope, Send

from flows.clock import SystemClock
from tests.api.asked import Asked
from tests.api.faults import OddReply
from tests.api.listed import account
from tests.api.server import Api
from tests.clocks import VirtualClock
from tests.operator import COMMAND_LINE, ROOT, TIMEOUT, Operator
from tests.prefect_api import prefect_server
from tests.security.canary import KEY, Answer, echoes, envelope, everything, holding, page, tells

pytestmark = [pytest.mark.e2e, pytest.mark.prefect]

SAVE_BLOCK = """
import sys
from flows.orchestration.credentials import ApiCredentials
ApiCredentials(base_url=sys.argv[1], api_key=sys.stdin.read()).save("production")
"""

# The key is a local variable where errors occur, so tracebacks could contain it.
CRASH = """
from connectors.source.client import ApiClient
from flows.cli.__main__ import run

def broken(self, answer):
    key, headers = self._headers["Authorization"], self._headers
    raise RuntimeError(f"planted in {self!r}")

ApiClient._read_body = broken
run()
"""

# The answer to each account's media, by its number. The first ones take no time: nothing is tried again.
FEW = ("message", "issue", "later", "busy")
WAYS = list(dict.fromkeys((*FEW, *echoes(""))))


def _answer(key: str, mode: str, asked: Asked) -> tuple[str, Answer]:
    """Return what the API answers, and what it is called."""
    echo, later = f"you sent Authorization: {key}", {"Retry-After": "7200"}
    if mode == "401":
        return "key", (401, {"WWW-Authenticate": key}, envelope(echo, correlation_id=key))
    if asked.number is None:
        odd = [account(1), account(0, status=key)] if mode == "data" else []
        number = len(FEW if mode == "few" else WAYS)
        return "accounts", (200, {}, page(odd or [account(each) for each in range(number)]))
    if mode == "403":
        return "scope", (403, {}, envelope(echo, "api_scope_denied"))
    if mode == "data":
        return "data", (200, {}, page([{"id": "1", "caption": f"my key is {key}", f"field {key}": 1}]))
    later_ones = {"later": (500, later, envelope(echo, "api_internal_error")), "busy": (429, later, envelope(echo))}
    return WAYS[asked.number], {**echoes(key), **later_ones}[WAYS[asked.number]]


class Echoing(Api):
    """An API that repeats the key in whatever it answers.

    `done` is how often it went wrong in which way, `seen` what every user of the machine can read of the processes that
    asked.
    """

    def __init__(self) -> None:
        super().__init__()
        self.done: Counter[str] = Counter()
        self.seen = set[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer in the way that the end of the key, and the account, choose."""
        key = dict(scope["headers"])[b"authorization"].decode().removeprefix("Bearer ")
        asked = Asked.read(scope["path"], scope["query_string"])
        way, (status, headers, body) = _answer(key, key.rpartition("-")[2], asked)
        self.done[way] += 1
        if way == "key":
            self.seen |= {f"{one.info}" for one in psutil.process_iter(["cmdline", "name"])}
        everywhere = {"X-Correlation-ID": next(self.correlation_ids), "X-Echo": key, "Set-Cookie": f"key={key}"}
        await OddReply(body, {**everywhere, **headers}, status=status)(scope, receive, send)


@dataclass
class Rig:
    """An operator's folders, and the output of their commands."""

    folder: Path
    service: Echoing
    output: list[str] = field(default_factory=list)

    def operator(self, name: str, **env: str) -> Operator:
        env = {"GRAMHOUSE_BASE_URL": self.service.url, "GRAMHOUSE_MAX_WAIT": "1", **env}
        return Operator(self.folder / name, env, here=True)

    def start(self, name: str, *arguments: str, code: str = "", **env: str) -> subprocess.Popen[str]:
        return self.operator(name).start_python(*(("-c", code) if code else COMMAND_LINE), *arguments, env=env)

    def end(self, process: subprocess.Popen[str], expected: int) -> str:
        self.output.append("".join(process.communicate(timeout=TIMEOUT)))
        assert process.returncode == expected, self.output[-1]
        return self.output[-1]

    def run(self, name: str, *arguments: str, expected: int = 0, **env: str) -> str:
        """Run a command in this process, which takes a fifth of the time."""
        done = self.operator(name, **env).run(*arguments, code=expected)
        self.output.append(done.stdout + done.stderr)
        return self.output[-1]

    def crash(self, name: str, **env: str) -> None:
        process = self.start(name, "sync", "-v", code=CRASH, GRAMHOUSE_API_KEY=f"{KEY}-all", **env)
        assert "planted" in self.end(process, 1)

    def read(self, name: str, output: str) -> None:
        """Read what a sync left in which everything failed."""
        assert ("api_forbidden" in output, "***" in output) == (True, True)
        self.run(name, "status", expected=3)
        self.run(name, "quarantine")
        self.run(name, "export", str(self.folder / name / "out"))

    def check(self) -> None:
        assert any("flows.cli" in each for each in self.service.seen)
        assert not [text for text in (*self.output, *self.service.seen) if tells(text, KEY)]
        assert holding(self.folder, KEY) == set()
        assert {path.suffix for path in self.folder.rglob("*") if path.is_file()} >= {".duckdb", ".parquet", ".lock"}


@pytest.fixture(scope="module")
def service() -> Iterator[Echoing]:
    with Echoing().serve() as served:
        yield served


@pytest.fixture
def rig(tmp_path: Path, service: Echoing) -> Rig:
    return Rig(tmp_path / "rig", service)


def test_the_key_is_written_nowhere_though_everything_fails(
    rig: Rig, tmp_path: Path, service: Echoing, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(f"{KEY}-all\n")
    key_file.chmod(0o600)
    rig.end(rig.start("direct-401", "sync", "-v", GRAMHOUSE_API_KEY=f"{KEY}-401"), 1)
    rig.run("direct-401", "doctor", expected=1, GRAMHOUSE_API_KEY=f"{KEY}-401")
    # The snapshot cannot be written at the end.
    (rig.folder / "unwritable" / ".analytics.duckdb.next").mkdir(parents=True)
    output = rig.run("unwritable", "sync", "-v", "--json", expected=1, GRAMHOUSE_API_KEY=f"{KEY}-403")
    assert "cannot publish" in output
    rig.crash("crash")
    clock = VirtualClock(datetime.now(UTC))
    for name in ("now", "monotonic", "sleep"):
        monkeypatch.setattr(SystemClock, name, staticmethod(getattr(clock, name)))
    rig.read("direct", rig.run("direct", "sync", "-v", expected=3, GRAMHOUSE_API_KEY_FILE=str(key_file)))
    assert {*WAYS, "key", "scope"} <= set(service.done)
    rig.check()


# tests/e2e/prefect finds no key in Prefect's files after runs that fail in other ways, and is quicker.
@pytest.mark.long
def test_prefect_stores_the_key_nowhere_though_everything_fails(rig: Rig, tmp_path: Path) -> None:
    home = tmp_path / "prefect"
    with prefect_server(home) as api:
        tracker = {"PREFECT_API_URL": api, "PREFECT_HOME": str(home), "DO_NOT_TRACK": "1"}
        slow = rig.start("tracked", "sync", "-v", GRAMHOUSE_API_KEY=f"{KEY}-few", **tracker)
        # The value of a block is passed on standard input; the address is no secret.
        command = [sys.executable, "-c", SAVE_BLOCK, rig.service.url]
        subprocess.run(command, input=f"{KEY}-401", env={**os.environ, **tracker}, cwd=ROOT, text=True, check=True)
        block = rig.start("tracked-block", "sync", "-v", GRAMHOUSE_CREDENTIALS="production", **tracker)
        assert "***" in rig.end(block, 1)
        rig.crash("tracked-crash", **tracker)
        rig.read("tracked", rig.end(slow, 3))
    rig.check()
    stored = [content for _, content in everything(home)]
    assert all(any(word in content for content in stored) for word in (b"Failed", b"api_forbidden"))
    assert holding(home, KEY) == set()


def test_a_key_in_the_data_of_the_api_is_stored_only_as_data(rig: Rig, service: Echoing) -> None:
    # The status of an account is the key.
    assert "unknown_status" in rig.run("data", "sync", "-v", expected=3, GRAMHOUSE_API_KEY=f"{KEY}-data")
    rig.run("data", "status", expected=3)
    rig.run("data", "runs", "--json")
    assert service.done["data"]
    assert not [text for text in rig.output if tells(text, KEY)]
    # Data is stored unchanged, for those who may read it.
    found = {name.split(",")[0].split("/")[1] for name in holding(rig.folder, KEY)}
    assert found == {"warehouse.duckdb", "analytics.duckdb", "raw"}
