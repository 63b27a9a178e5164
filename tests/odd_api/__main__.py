"""Serves the odd API in a process: python -m tests.odd_api [--accounts 8] [--shape drift] ... Prints its address."""

import sys
from typing import Any

from connectors.sandbox.http.serve import serve
from connectors.sandbox.settings import SandboxSettings
from tests.odd_api.api import OddApi

options = {name.removeprefix("--"): value for name, value in zip(sys.argv[1::2], sys.argv[2::2], strict=True)}
shape = options.pop("shape", "mixed")
numbers: dict[str, Any] = {name: int(value) for name, value in options.items()}


def _ready(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


serve(OddApi(SandboxSettings(**numbers), shape=shape), on_ready=_ready)
