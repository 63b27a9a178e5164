"""Shell completion is installed for the shell that asks."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GRAMHOUSE = Path(sys.executable).with_name("gramhouse")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(("words", "completed"), [("exp", {"explain", "export"}), ("sync --ret", {"--retries"})])
def test_commands_and_options_are_completed(tmp_path: Path, words: str, completed: set[str]) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "SHELL": "/bin/bash"}
    subprocess.run([GRAMHOUSE, "--install-completion"], env=environment, capture_output=True, check=True)
    asking = (
        f'source "$HOME/.bashrc"; COMP_WORDS=(gramhouse {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1));'
        ' $(complete -p gramhouse | grep -o "F [^ ]*" | cut -c3-) gramhouse; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", asking], env=environment, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == completed
