"""The list of the slowest test files, which are started first."""

from pathlib import Path

from tests.conftest import LONGEST, ON_PREFECT


def test_the_longest_files_exist() -> None:
    stems = [path.stem for path in Path(__file__).parent.rglob("test_*.py")]
    assert {name: stems.count(name) for name in LONGEST + ON_PREFECT} == dict.fromkeys(LONGEST + ON_PREFECT, 1)
