import gc
import subprocess
import sys

import pytest

from flows.cli.importing import importing


def test_garbage_is_collected_again_afterwards() -> None:
    with importing():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.unfreeze()


def test_it_is_collected_again_after_an_import_that_fails() -> None:
    with pytest.raises(ModuleNotFoundError), importing():
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401, PLC0415
    assert gc.isenabled()
    gc.unfreeze()


def test_a_command_imports_nobody_elses_command_line() -> None:
    code = """
import sys
sys.argv = ["gramhouse", "--version"]
from flows.cli.__main__ import run
try:
    run()
finally:
    import httpx
    assert httpx.Client and sys.modules["httpx._main"] is None
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("gramhouse ")
