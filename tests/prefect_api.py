"""A Prefect server and requests to it, with the retries that Prefect's own client makes."""

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from flows.orchestration.processes import free_port, prefect

# The address of a UI that requests may come from.
PUBLIC = "https://prefect.example"


@contextmanager
def prefect_server(home: Path) -> Iterator[str]:
    """Run a Prefect server with its data in `home`; yield the URL of its API."""
    port = free_port()
    with (
        patch.dict(os.environ, {"PREFECT_SERVER_UI_API_URL": f"{PUBLIC}/api"}),
        prefect(home, port, home.parent / "report.html"),
    ):
        yield f"http://127.0.0.1:{port}/api"


def ask(api: str, path: str, document: object = None, method: str = "POST") -> Any:  # noqa: ANN401 - any JSON
    """Request `path` of an API; return its JSON, or None for an empty body."""
    request = urllib.request.Request(
        f"{api}/{path.removeprefix('/')}",
        data=None if method == "GET" else json.dumps({} if document is None else document).encode(),
        headers={"Content-Type": "application/json"},
        method=method,
    )
    for attempts_left in range(300, -1, -1):
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            # 503: its SQLite database is locked.
            if error.code != 503 or not attempts_left:
                raise
            error.close()
            time.sleep(0.1)
    raise AssertionError
