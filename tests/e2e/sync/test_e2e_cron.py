"""The cron lines of docs/commands.md work as printed, in the empty environment that cron gives a command."""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.e2e.processes import KEY, SandboxProcess

COMMANDS = (Path(__file__).parents[3] / "docs/commands.md").read_text(encoding="utf-8")


def test_the_cron_lines_sync_without_an_environment_and_keep_json_and_log_apart(
    service: SandboxProcess, tmp_path: Path
) -> None:
    section = COMMANDS[COMMANDS.index("\n## Cron\n") : COMMANDS.index("\n## Installation\n")]
    [settings] = re.findall(r"```toml\n(.*?)```", section, re.DOTALL)
    lines = re.findall(r"^\S+ \S+ \* \* \* +(.+)$", section, re.MULTILINE)
    assert len(lines) == 2
    folder = str(tmp_path)
    own = settings.replace("/srv/gramhouse", folder).replace("https://api.example.com", service.url)
    (tmp_path / "gramhouse.toml").write_text(own, encoding="utf-8")
    (tmp_path / "api-key").write_text(KEY, encoding="utf-8")
    (tmp_path / "api-key").chmod(0o600)
    (tmp_path / ".venv").symlink_to(Path(sys.prefix), target_is_directory=True)

    for line in lines:
        done = subprocess.run(
            ["env", "-i", "PATH=/usr/bin:/bin", "/bin/sh", "-c", line.replace("/srv/gramhouse", folder)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    reports = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(report["kind"], report["state"]) for report in reports] == [("sync", "complete")] * 2
    assert (tmp_path / "sync.log").read_text(encoding="utf-8").count(f"gramhouse sync of {service.url}") == 2
    assert (tmp_path / "data/analytics.duckdb").is_file()
