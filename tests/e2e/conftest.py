"""Fixtures of end-to-end tests with real processes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.processes import EIGHT_ACCOUNTS, KEY, Operator, SandboxProcess, start_sandboxes

# Pytest shows the values of a failed assertion only for modules it rewrites.
pytest.register_assert_rewrite("tests.e2e.expected")


@pytest.fixture
def serve() -> Iterator[Callable[..., SandboxProcess]]:
    with start_sandboxes() as begin:
        yield begin


@pytest.fixture(scope="session")
def shared_sandbox() -> Iterator[SandboxProcess]:
    with start_sandboxes() as begin:
        yield begin(*EIGHT_ACCOUNTS)


@pytest.fixture
def service(shared_sandbox: SandboxProcess) -> SandboxProcess:
    """A sandbox, shared because starting one is slow, and reset except for cooldowns it has already sent."""
    shared_sandbox.day(0).faults()
    shared_sandbox.limits(account_catalog=None, selected_account=None)
    shared_sandbox.forget()
    return shared_sandbox


@pytest.fixture
def operator(tmp_path: Path, service: SandboxProcess) -> Operator:
    return Operator(tmp_path / "operator", {"GRAMHOUSE_BASE_URL": service.url, "GRAMHOUSE_API_KEY": KEY})
