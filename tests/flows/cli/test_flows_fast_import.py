import gc
import subprocess
import sys

import pytest

from flows.cli.fast_import import importing


def test_garbage_collection_is_enabled_after_the_imports() -> None:
    with importing():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.unfreeze()


def test_garbage_collection_is_enabled_after_a_failed_import() -> None:
    with pytest.raises(ModuleNotFoundError), importing():
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401, PLC0415
    assert gc.isenabled()
    gc.unfreeze()


def test_a_command_does_not_import_other_commands() -> None:
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


@pytest.mark.parametrize(("release", "is_freed"), [(None, False), ("1.5.6", False), ("1.10.0", False), ("2.0.0", True)])
def test_imported_modules_are_unfrozen_at_exit_only_for_duckdb_2(release: str | None, *, is_freed: bool) -> None:
    code = f"""
import atexit, gc, sys
from types import SimpleNamespace
atexit.register(lambda: print(gc.get_freeze_count() == 0))
from flows.cli.fast_import import importing
with importing():
    import json
sys.modules["duckdb"] = {release!r} and SimpleNamespace(__version__={release!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{is_freed}\n", "")
