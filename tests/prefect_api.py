"""A Prefect server and requests to it, with the retries that Prefect's own client makes."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

# The address of a UI that requests may come from.
PUBLIC = "https://prefect.example"

_SERVE = """
import socket, sys
from pathlib import Path
from flows.orchestration.processes import import_prefect, local_prefect

home, port = Path(sys.argv[1]), int(sys.argv[2])
import_prefect(local_prefect(home, port))
from flows.orchestration.server import prefect_server

with socket.create_server(("127.0.0.1", port)) as listening, prefect_server(listening, home.parent / "report.html"):
    print("ready", flush=True)
    sys.stdin.read()
"""


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def prefect_server(home: Path, port: int = 0) -> Iterator[str]:
    """Run the Prefect server of `up` in a process, with its data in `home`; yield the URL of its API."""
    home.mkdir(exist_ok=True)
    port, pipe = port or free_port(), subprocess.PIPE
    env = {**os.environ, "PREFECT_SERVER_UI_API_URL": f"{PUBLIC}/api", "PYTHONSAFEPATH": "1"}
    env["PYTHONPATH"] = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", _SERVE, str(home), str(port)]
    with (
        (home / "server.log").open("ab") as log,
        # It ends when its standard input does, which the end of the block closes.
        subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", log.name
        yield f"http://127.0.0.1:{port}/api"


def ask(api: str, path: str, document: object = None, method: str = "POST") -> Any:  # noqa: ANN401 - any JSON
    """Request `path` of an API; return its JSON, or None for an empty body."""
    url, body = f"{api}/{path.removeprefix('/')}", None if method == "GET" else document or {}
    end = time.monotonic() + 30
    while (answer := httpx.request(method, url, json=body, timeout=120, trust_env=False)).status_code == 503:
        # Its SQLite database is locked.
        assert time.monotonic() < end, answer.text
        time.sleep(0.1)
    answer.raise_for_status()
    return answer.json() if answer.content else None
