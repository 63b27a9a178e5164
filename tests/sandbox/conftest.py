from collections.abc import Callable

import pytest

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.settings import SandboxSettings
from tests.clocks import VirtualClock
from tests.sandbox.asgi_client import Asker


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(passed=1000.0)


@pytest.fixture
def asker(clock: VirtualClock) -> Asker:
    return Asker(Sandbox(SandboxSettings(), clock=clock.monotonic))


@pytest.fixture
def build(clock: VirtualClock) -> Callable[..., Asker]:
    return lambda **settings: Asker(Sandbox(SandboxSettings(**settings), clock=clock.monotonic))
