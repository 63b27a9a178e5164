"""Shell completion: it can be installed, and is as fast as the help."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from flows.cli.command_table import COMMANDS
from tests.flows.cli.test_flows_startup import heavy, imported

GRAMHOUSE = Path(sys.executable).with_name("gramhouse")


def completed(line: str) -> list[str]:
    """Return bash's completions of the last word of a line."""
    words = line.split(" ")
    environment = {"_GRAMHOUSE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return CliRunner().invoke(app, [], prog_name="gramhouse", env=environment).output.split()


def test_commands_and_the_options_of_one_are_completed() -> None:
    assert completed("gramhouse ") == list(COMMANDS)
    assert completed("gramhouse st") == ["status"]
    assert "--retries" in completed("gramhouse sync --re")
    assert completed("gramhouse query --format ") == ["table", "csv", "json"]


def test_completing_a_command_imports_none() -> None:
    modules = imported([], _GRAMHOUSE_COMPLETE="complete_bash", COMP_WORDS="gramhouse s", COMP_CWORD="1")
    # Typer imports pydantic if it is installed.
    assert heavy(modules) <= {"importlib.metadata", "pydantic"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_completion_is_installed_for_the_shell_that_asks(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{GRAMHOUSE.parent}{os.pathsep}{os.environ['PATH']}"}
    # The second command keeps bash from replacing itself by the first, which looks for its parent.
    script = "gramhouse --install-completion; exit $?"
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert "bash completion installed" in done.stdout
    asking = (
        'source "$HOME/.bashrc"; COMP_WORDS=(gramhouse exp); COMP_CWORD=1; _gramhouse_completion gramhouse;'
        ' echo "${COMPREPLY[@]}"'
    )
    message = subprocess.run(["bash", "-c", asking], env=environment, capture_output=True, text=True, check=True)
    assert message.stdout.split() == ["explain", "export"]
