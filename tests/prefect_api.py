"""A Prefect server, and what a test asks it, as patiently as Prefect's own client."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flows.orchestration.processes import free_port, prefect


@contextmanager
def prefect_server(home: Path) -> Iterator[str]:
    """The API of a Prefect server that keeps what it has in a folder."""
    port = free_port()
    with prefect(home, port) as server:
        server.wait()
        yield f"http://127.0.0.1:{port}/api"


def ask(api: str, path: str, document: object = None, method: str = "POST") -> Any:  # noqa: ANN401 - any JSON
    """Ask for `path` below the address of an API; None where it has nothing to say."""
    request = urllib.request.Request(
        f"{api}/{path.removeprefix('/')}",
        data=None if method == "GET" else json.dumps({} if document is None else document).encode(),
        headers={"Content-Type": "application/json"},
        method=method,
    )
    for patience in range(300, -1, -1):
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            # Its SQLite is busy for a moment.
            if error.code != 503 or not patience:
                raise
            error.close()
            time.sleep(0.1)
    raise AssertionError
