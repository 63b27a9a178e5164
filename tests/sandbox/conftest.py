from collections.abc import Callable

import pytest

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.settings import SandboxSettings
from tests.sandbox.asking import Asker, FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def asker(clock: FakeClock) -> Asker:
    return Asker(Sandbox(SandboxSettings(), clock=clock))


@pytest.fixture
def build(clock: FakeClock) -> Callable[..., Asker]:
    return lambda **settings: Asker(Sandbox(SandboxSettings(**settings), clock=clock))
