"""`python -m tests.mutation`: apply each mutant to a copy of the code and check that its tests fail."""

import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

from tests.mutation.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
_TREES = ("connectors", "flows", "models", "deployments", "tests", "docs", "pyproject.toml", "README.md")
_FAILED = 1


def _copied(folder: Path) -> None:
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for tree in _TREES:
            tar.add(ROOT / tree, tree, filter=lambda entry: None if "__pycache__" in entry.name else entry)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as tar:
        tar.extractall(folder, filter="data")


def _code(folder: Path, tests: Iterable[str]) -> int:
    # The copy precedes the installed package, in the tests and in the processes they start.
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
    ).returncode


def are_sound() -> bool:
    """Return whether the tests pass without a mutant; otherwise their failures mean nothing."""
    with tempfile.TemporaryDirectory() as name:
        _copied(Path(name))
        return _code(Path(name), sorted({path for mutant in MUTANTS for path in mutant.caught_by})) == 0


def is_caught(mutant: Mutant) -> bool:
    """Return whether the tests detect a mutant: they must run and fail."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _copied(folder)
        path = folder / mutant.path
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        return _code(folder, mutant.caught_by) == _FAILED


def main() -> int:
    """Test each mutant and print the result."""
    if not are_sound():
        sys.stdout.write("The tests fail though nothing is broken: see `make test` first.\n")
        return 1
    missed = 0
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for mutant, caught in zip(MUTANTS, threads.map(is_caught, MUTANTS), strict=True):
            missed += not caught
            sys.stdout.write(f"{'caught' if caught else 'MISSED'}  {mutant.name} ({mutant.path})\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(MUTANTS) - missed} of {len(MUTANTS)} mutants were caught.\n")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
