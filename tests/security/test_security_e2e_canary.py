"""An API that echoes the key in every response, and runs that fail in every way: the key is never written."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from tests.api.asked import Asked
from tests.api.faults import OddReply
from tests.api.listed import account
from tests.api.server import Api
from tests.operator import COMMAND_LINE, ROOT, TIMEOUT, Operator, wait_until
from tests.prefect_api import prefect_server
from tests.security.canary import everything, holding, tells

pytestmark = [pytest.mark.e2e, pytest.mark.prefect]

# The secret to search for; the suffix selects the fault of the server.
CANARY = "cnry/7Zq4+f1e9b==Xw"

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

# The fault of each account's media, by its number.
WAYS = (
    "forbidden", "later", "busy", "invalid", "html", "redirect", "cut", "malformed", "reason", "headers", "no http",
)  # fmt: skip


_TRACES = count(1)


def _http(key: str, status: int, body: str, *headers: str, reason: str = "X", length: int | None = None) -> bytes:
    """Return a response that repeats the key in its headers."""
    size = len(body.encode()) if length is None else length
    echoing = (f"X-Echo: {key}", f"Set-Cookie: key={key}", f'ETag: "{key}"', f"Content-Length: {size}")
    return "\r\n".join((f"HTTP/1.1 {status} {reason}", *echoing, *headers, "", body)).encode()


def _error(code: str, message: str, **more: object) -> str:
    return json.dumps({"error": {"code": code, "message": message, **more}})


def _page(items: object, cursor: object = None) -> str:
    return json.dumps({"items": items, "next_cursor": cursor})


def _answers(key: str, path: str) -> dict[str, bytes]:
    """Return what the API answers, by the way in which it goes wrong."""
    echo = f"you sent Authorization: {key} to {path}"
    http, forbidden = partial(_http, key), _error("api_forbidden", echo)
    traced, later = f"X-Correlation-ID: {next(_TRACES):026}", "Retry-After: 7200"
    issues = {"issues": [{"code": key, "path": [1]}]}
    return {
        "key": http(401, _error("api_unauthorized", echo, correlation_id=key), traced, f"WWW-Authenticate: {key}"),
        "scope": http(403, _error("api_scope_denied", echo), traced),
        "forbidden": http(403, forbidden, traced),
        "later": http(500, _error("api_internal_error", echo), traced, later),
        "busy": http(429, _error("rate_limited", echo), traced, later),
        "invalid": http(422, _error("api_validation_error", echo, details=issues), traced),
        "html": http(418, f"<script>'{key}'</script>", traced, f"Content-Type: text/html; key={key}"),
        "redirect": http(307, "", traced, f"Location: http://127.0.0.1:9/stolen?key={key}"),
        "reason": http(410, echo, traced, reason=echo),
        "no http": f"HTTP/1.1 200 OK\r\nBad Header {key}: {key}\r\n\r\n".encode(),
        "cut": http(200, _page([{"id": "1", "caption": echo}]), traced, length=9999),
        "malformed": http(200, f'{{"items": [{{"{key}": {echo}', traced),
        "headers": http(403, forbidden, f"X-Correlation-ID: {key}", f"Date: {key}", f"Retry-After: {key}"),
        "data": http(200, _page([{"id": "1", "caption": f"my key is {key}", f"field {key}": 1}]), traced),
        "accounts": http(200, _page([account(number) for number in range(len(WAYS))]), traced),
        "odd accounts": http(200, _page([account(1), account(0, status=key)], f"after {key}"), traced),
        "last account": http(200, _page([account(2)]), traced),
    }


def _way(mode: str, asked: Asked) -> str:
    if asked.number is None:
        odd = "last account" if asked.cursor else "odd accounts"
        return {"401": "key", "data": odd}.get(mode, "accounts")
    return {"401": "key", "403": "scope", "data": "data"}.get(mode, WAYS[asked.number % len(WAYS)])


class Echoing(Api):
    """An API that repeats the key in whatever it answers; `done` is how often it went wrong in which way."""

    def __init__(self) -> None:
        super().__init__()
        self.done: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer in the way that the end of the key, and the account, choose."""
        key = dict(scope["headers"])[b"authorization"].decode()
        way = _way(key.rpartition("-")[2], Asked.read(scope["path"], scope["query_string"]))
        self.done[way] += 1
        await OddReply(_answers(key, scope["path"])[way], ending="wire")(scope, receive, send)


@dataclass
class Rig:
    """An operator's folders, the output of their commands, and what could be seen of their processes meanwhile."""

    folder: Path
    url: str
    output: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def operator(self, name: str, **env: str) -> Operator:
        env = {"GRAMHOUSE_BASE_URL": self.url, "GRAMHOUSE_MAX_WAIT": "1", **env}
        return Operator(self.folder / name, env, here=True)

    def start(self, name: str, *arguments: str, code: str = "", **env: str) -> subprocess.Popen[str]:
        return self.operator(name).start_python(*(("-c", code) if code else COMMAND_LINE), *arguments, env=env)

    def end(self, process: subprocess.Popen[str], expected: int) -> str:
        until = time.monotonic() + TIMEOUT
        while process.poll() is None and time.monotonic() < until:
            self.seen |= set(_titles())
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
        self.output.append("".join(process.communicate(timeout=TIMEOUT)))
        assert process.returncode == expected, self.output[-1]
        return self.output[-1]

    def run(self, name: str, *arguments: str, expected: int = 0, **env: str) -> str:
        """Run a command in this process, which takes a fifth of the time."""
        done = self.operator(name, **env).run(*arguments, code=expected)
        self.output.append(done.stdout + done.stderr)
        return self.output[-1]

    def crash(self, name: str, **env: str) -> None:
        process = self.start(name, "sync", "-v", code=CRASH, GRAMHOUSE_API_KEY=f"{CANARY}-all", **env)
        assert "planted" in self.end(process, 1)

    def read(self, name: str) -> None:
        self.run(name, "status", expected=3)
        self.run(name, "quarantine")
        self.run(name, "export", str(self.folder / name / "out"))

    def check(self) -> None:
        assert not [text for text in self.output if tells(text, CANARY)]
        assert any("flows.cli" in title for title in self.seen)
        assert not [title for title in self.seen if tells(title, CANARY)]
        assert holding(self.folder, CANARY) == set()
        assert {path.suffix for path in self.folder.rglob("*") if path.is_file()} >= {".duckdb", ".parquet", ".lock"}


def _titles() -> Iterator[str]:
    """The command lines and titles of all processes, which every user of the machine can read."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield b" ".join((process / name).read_bytes() for name in ("cmdline", "comm", "status")).decode(
                errors="replace"
            )


@pytest.fixture(scope="module")
def service() -> Iterator[Echoing]:
    with Echoing().serve() as served:
        yield served


@pytest.fixture
def rig(tmp_path: Path, service: Echoing) -> Rig:
    return Rig(tmp_path / "rig", service.url)


def test_the_key_is_written_nowhere_though_everything_fails(rig: Rig, tmp_path: Path, service: Echoing) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(f"{CANARY}-all\n")
    key_file.chmod(0o600)
    slow = rig.start("direct", "sync", "-v", GRAMHOUSE_API_KEY_FILE=str(key_file))
    rig.end(rig.start("direct-401", "sync", "-v", GRAMHOUSE_API_KEY=f"{CANARY}-401"), 1)
    rig.run("direct-403", "sync", "-v", "--json", expected=1, GRAMHOUSE_API_KEY=f"{CANARY}-403")
    rig.run("direct-401", "doctor", expected=1, GRAMHOUSE_API_KEY=f"{CANARY}-401")
    # The snapshot cannot be written at the end.
    (rig.folder / "unwritable" / ".analytics.duckdb.next").mkdir(parents=True)
    output = rig.run("unwritable", "sync", "-v", expected=1, GRAMHOUSE_API_KEY=f"{CANARY}-403")
    assert "cannot publish" in output
    rig.crash("crash")
    output = rig.end(slow, 3)
    assert ("api_forbidden" in output, "***" in output) == (True, True)
    rig.read("direct")
    assert {*WAYS, "key", "scope"} <= set(service.done)
    rig.check()


# tests/e2e/prefect finds no key in Prefect's files after runs that fail in other ways, and is quicker.
@pytest.mark.long
def test_prefect_stores_the_key_nowhere_though_everything_fails(rig: Rig, tmp_path: Path) -> None:
    home = tmp_path / "prefect"
    with prefect_server(home) as api:
        tracker = {"PREFECT_API_URL": api, "PREFECT_HOME": str(home), "DO_NOT_TRACK": "1"}
        slow = rig.start("tracked", "sync", "-v", GRAMHOUSE_API_KEY=f"{CANARY}-all", **tracker)
        # The value of a block is passed on standard input; the address is no secret.
        command = [sys.executable, "-c", SAVE_BLOCK, rig.url]
        subprocess.run(command, input=f"{CANARY}-401", env={**os.environ, **tracker}, cwd=ROOT, text=True, check=True)
        block = rig.start("tracked-block", "sync", "-v", GRAMHOUSE_CREDENTIALS="production", **tracker)
        assert "***" in rig.end(block, 1)
        output = rig.end(slow, 3)
        assert ("api_forbidden" in output, "***" in output) == (True, True)
        rig.crash("tracked-crash", **tracker)
        rig.read("tracked")
    rig.check()
    stored = [content for _, content in everything(home)]
    assert all(any(word in content for content in stored) for word in (b"Failed", b"api_forbidden"))
    assert holding(home, CANARY) == set()


def test_a_key_in_the_data_of_the_api_is_stored_only_as_data(rig: Rig, service: Echoing) -> None:
    # The status of an account is the key.
    assert "unknown_status" in rig.run("data", "sync", "-v", expected=3, GRAMHOUSE_API_KEY=f"{CANARY}-data")
    rig.run("data", "status", expected=3)
    rig.run("data", "runs", "--json")
    assert service.done["data"]
    assert not [text for text in rig.output if tells(text, CANARY)]
    # Data is stored unchanged, for those who may read it.
    found = {name.split(",")[0].split("/")[1] for name in holding(rig.folder, CANARY)}
    assert found == {"warehouse.duckdb", "analytics.duckdb", "raw"}


def test_a_signal_during_a_request_does_not_reveal_the_key(rig: Rig, service: Echoing) -> None:
    before = service.done["cut"]
    process = rig.start("signal", "sync", "-v", GRAMHOUSE_API_KEY=f"{CANARY}-all")
    wait_until(lambda: service.done["cut"] > before or process.poll() is not None, "a request")
    process.send_signal(signal.SIGTERM)
    rig.end(process, 128 + signal.SIGTERM)
    assert not tells(rig.output[0], CANARY)
    assert holding(rig.folder, CANARY) == set()
