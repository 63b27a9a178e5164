"""Fixtures of end-to-end tests with real processes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.sandbox.settings import SandboxSettings
from tests.api.server import Api
from tests.operator import KEY, Operator

# Pytest shows the values of a failed assertion only for modules it rewrites.
pytest.register_assert_rewrite("tests.harness.against_api")


@pytest.fixture(scope="session")
def shared_sandbox() -> Iterator[Api]:
    with Api(SandboxSettings(accounts=8, posts=30, seed=11)).serve() as service:
        yield service


@pytest.fixture
def service(shared_sandbox: Api) -> Api:
    """A sandbox, shared because creating one is slow, and reset except for cooldowns it has already sent."""
    shared_sandbox.day = 0
    shared_sandbox.script.replace()
    shared_sandbox.limiter.configure({"account_catalog": None, "selected_account": None})
    shared_sandbox.requests.clear()
    return shared_sandbox


@pytest.fixture
def shell(tmp_path: Path, service: Api) -> Operator:
    """An operator whose commands are processes."""
    return Operator(tmp_path / "operator", {"GRAMHOUSE_BASE_URL": service.url, "GRAMHOUSE_API_KEY": KEY})


@pytest.fixture
def operator(shell: Operator) -> Operator:
    """An operator whose commands run in this process, except those that a test starts."""
    return replace(shell, here=True)
