"""The sandbox on a real socket."""

import signal
import subprocess
import sys
from datetime import UTC, datetime

import httpx
import pytest

from connectors.sandbox.http.requests import DEMO_KEY
from tests.sandbox.asgi_client import ACCOUNTS

AUTHORIZED = {"Authorization": f"Bearer {DEMO_KEY}"}


@pytest.mark.e2e
def test_the_command_prints_its_settings_and_a_signal_ends_it() -> None:
    command = [sys.executable, "-W", "error", "-m", "flows.cli", "sandbox", "--port", "0", "--day", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        first = process.stdout.readline().rstrip("\n")
        url = first.removeprefix("export GRAMHOUSE_BASE_URL=").removesuffix(" GRAMHOUSE_API_KEY=sandbox-demo-key")
        listed = httpx.get(url + ACCOUNTS, headers=AUTHORIZED).json()["items"]
        assert httpx.get(f"{url}/_sandbox/day").json() == {"day": 2}
        media = f"{url}{ACCOUNTS}/{listed[0]['id']}/media?surface=posts"
        newest = datetime.fromisoformat(httpx.get(media, headers=AUTHORIZED).json()["items"][0]["timestamp"])
        assert 0 < (datetime.now(UTC) - newest).total_seconds() < 8 * 86_400
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=240)
    finally:
        process.kill()
    assert (process.returncode, output, "Traceback" in errors) == (0, "", False)
