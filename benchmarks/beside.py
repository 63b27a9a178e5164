"""The bench server beside a measurement, in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from benchmarks.pages import Change, Style

ROOT = Path(__file__).parents[1]

_DIRECT = build_opener(ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class ServerSpent:
    """What a server has spent since it began: requests answered, CPU seconds; see benchmarks.server."""

    requests: int
    cpu_seconds: float
    refused: int
    too_early: int

    def __sub__(self, before: "ServerSpent") -> "ServerSpent":
        return ServerSpent(
            self.requests - before.requests,
            self.cpu_seconds - before.cpu_seconds,
            self.refused - before.refused,
            self.too_early - before.too_early,
        )


@dataclass(frozen=True, slots=True)
class Beside:
    """A server that runs."""

    url: str

    def spent(self) -> ServerSpent:
        """Ask what it has spent so far; the question is not counted."""
        with _DIRECT.open(f"{self.url}/spent", timeout=60) as answer:
            return ServerSpent(**json.load(answer))


@contextmanager
def serving(
    accounts: int,
    posts: int,
    *,
    day: int = 0,
    style: Style = Style.COMPACT,
    change: Change = Change.NEWS,
    latency: float = 0.0,
    per_second: int | None = None,
) -> Iterator[Beside]:
    """Serve so many accounts of so many posts until the block ends; see benchmarks.server."""
    command = [sys.executable, "-m", "benchmarks.server", "--accounts", str(accounts), "--posts", str(posts)]
    command += ["--day", str(day), "--style", style, "--change", change, "--latency", str(latency)]
    if per_second is not None:
        command += ["--per-second", str(per_second)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            if server.stdout is None or not (port := server.stdout.readline().strip()):
                message = "the bench server did not start"
                raise RuntimeError(message)
            yield Beside(f"http://127.0.0.1:{port}")
        finally:
            server.terminate()
