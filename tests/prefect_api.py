"""What a test asks a Prefect server, as patiently as Prefect's own client."""

import json
import time
import urllib.error
import urllib.request
from typing import Any


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
