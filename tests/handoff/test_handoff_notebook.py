"""docs/notebooks/first-look: three charts from a snapshot, and the same three as plain SQL."""

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"
CELLS = json.loads((NOTEBOOKS / "first-look.ipynb").read_text(encoding="utf-8"))["cells"]
CHARTS = ("likes-by-day.png", "best-hours.png", "growth.png")
QUERIES = [
    "\n".join(line for line in each.splitlines() if not line.startswith("--")).strip().rstrip(";")
    for each in (NOTEBOOKS / "first-look.sql").read_text(encoding="utf-8").split("\n\n")[1:]
]


def _is_picture(path: Path) -> bool:
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and path.stat().st_size > 5000


@pytest.mark.parametrize("number", range(3), ids=CHARTS)
def test_the_plain_sql_is_the_charts_own_and_answers(number: int, snapshot: Path) -> None:
    [cell] = ["".join(cell["source"]) for cell in CELLS if QUERIES[number] in "".join(cell["source"])]
    assert "plt.show()" in cell
    with duckdb.connect(str(snapshot), read_only=True) as db:
        assert db.execute(QUERIES[number]).fetchall()


@pytest.mark.long
def test_every_cell_runs_and_draws_its_chart_with_either_library(snapshot: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="`make test` installs it")
    command = [sys.executable, "-W", "error", str(NOTEBOOKS / "run.py"), str(tmp_path), "--frames", "polars", "pandas"]
    env = {**os.environ, "GRAMHOUSE_SNAPSHOT": str(snapshot)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(CHARTS)
    assert all(_is_picture(tmp_path / name) for name in CHARTS)
