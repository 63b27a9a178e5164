"""Starts the benchmark server as a separate process."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

ROOT = Path(__file__).parents[2]

_DIRECT = build_opener(ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class ServerUsage:
    """Counters of a server since its start: requests, CPU seconds, rate-limited requests; see benchmarks.api.server.

    `requesting` are the seconds from the first to the last request since the counters were fetched before.
    """

    requests: int
    cpu_seconds: float
    refused: int
    too_early: int
    requesting: float

    def __sub__(self, before: "ServerUsage") -> "ServerUsage":
        return ServerUsage(
            self.requests - before.requests,
            self.cpu_seconds - before.cpu_seconds,
            self.refused - before.refused,
            self.too_early - before.too_early,
            self.requesting,
        )


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running server."""

    url: str

    def usage(self) -> ServerUsage:
        """Fetch the counters; this request is not counted."""
        with _DIRECT.open(f"{self.url}/usage", timeout=60) as response:
            return ServerUsage(**json.load(response))


@contextmanager
def start_server(accounts: int, posts: int, **options: object) -> Iterator[ServerProcess]:
    """Serve `accounts` accounts with `posts` posts each until the block exits; see benchmarks.api.server."""
    given = json.dumps({"accounts": accounts, "posts": posts, **options})
    command = [sys.executable, "-m", "benchmarks.api.server", given]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            if server.stdout is None or not (port := server.stdout.readline().strip()):
                raise RuntimeError("the benchmark server did not start")
            yield ServerProcess(f"http://127.0.0.1:{port}")
        finally:
            server.terminate()
