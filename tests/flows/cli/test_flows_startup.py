"""The modules that each command imports, checked in sys.modules because times depend on the machine."""

import os
import subprocess
import sys
from pathlib import Path

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.serve import in_thread
from connectors.sandbox.settings import SandboxSettings

ROOT = Path(__file__).parents[3]
HEAVY = ("aiohttp", "duckdb", "httpx", "prefect", "pyarrow", "pydantic", "pydantic_settings", "sqlalchemy")


def imported(*arguments: str, **environment: str) -> set[str]:
    """Return the modules that a command, which must succeed, has imported by its end."""
    program = (
        "import atexit, sys\n"
        f"sys.argv = ['gramhouse', *{arguments!r}]\n"
        "atexit.register(lambda: print(*(n for n, m in sys.modules.items() if m), file=sys.stderr))\n"
        "from flows.cli.__main__ import run\n"
        "run()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


def test_the_help_and_the_version_import_no_command() -> None:
    for option in ("-h", "--version"):
        modules = imported(option)
        assert modules.isdisjoint({*HEAVY, "asyncio"})
        assert {name for name in modules if name.startswith("connectors.")} <= {
            "connectors.buckets",
            "connectors.warehouse",
            "connectors.warehouse.storage",
            "connectors.warehouse.storage.errors",
        }
    for command in ("report", "config"):
        assert imported(command, "--help").isdisjoint({"asyncio", "httpx", "jinja2", "prefect", "sqlalchemy"})
    assert imported("up", "--help").isdisjoint({"httpx", "prefect", "sqlalchemy"})


def test_sync_publish_and_status_import_only_the_libraries_they_need() -> None:
    with in_thread(Sandbox(SandboxSettings(accounts=1, posts=3))) as url:
        environment = {"GRAMHOUSE_BASE_URL": url, "GRAMHOUSE_API_KEY": "sandbox-demo-key"}
        sync = imported("sync", **environment)
    assert {"aiohttp", "duckdb", "sqlalchemy"} <= sync
    assert sync.isdisjoint({"click", "pandas", "prefect", "pygments", "rich.markdown"})
    publish = imported("publish")
    assert "duckdb" in publish
    assert publish.isdisjoint({"aiohttp", "httpx", "prefect"})
    status = imported("status", **environment)
    assert "duckdb" in status
    # It reads the state, if there is one.
    assert status.isdisjoint({"aiohttp", "httpx", "prefect", "pyarrow"})
    for command in (["query", "FROM media"], ["report", "r.html"]):
        assert imported(*command, **environment).isdisjoint({"pyarrow", "sqlalchemy"}), command
