from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.rig import Rig, opened


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with opened(tmp_path) as found:
        yield found
