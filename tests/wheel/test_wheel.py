"""The wheel, installed into a separate environment and run outside the repository."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.operator import PROXIES, ROOT

PACKAGES = ("flows", "connectors", "models", "deployments")
DATA = (".sql", ".yaml", ".j2", ".toml")

pytestmark = [pytest.mark.e2e, pytest.mark.long]


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    done = subprocess.run(command, cwd=cwd, env=os.environ | env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source, cwd=source)
    return folder


def test_the_wheel_and_the_source_have_every_module_and_their_data(built: Path) -> None:
    wanted = {
        path.relative_to(ROOT).as_posix()
        for name in PACKAGES
        for path in (ROOT / name).rglob("*")
        if path.suffix in (".py", ".j2") or (path.suffix in DATA and (path.parent / "__init__.py").exists())
    }
    assert {Path(name).suffix for name in wanted} == {".py", *DATA}
    (wheel,), (sources,) = built.glob("gramhouse-*.whl"), built.glob("gramhouse-*.tar.gz")
    present = set(zipfile.ZipFile(wheel).namelist())
    assert wanted - present == set()
    assert {name.split("/")[0] for name in present if not name.startswith("gramhouse-")} == set(PACKAGES)
    with tarfile.open(sources) as archive:
        assert wanted <= {name.partition("/")[2] for name in archive.getnames()}


def test_demo_query_and_report_run_from_the_wheel(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment, project = tmp_path / "environment", tmp_path / "project"
    # A project has packages of the same names in the folder where its user runs gramhouse.
    for name in ("models", "connectors", "deployments"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text("raise ImportError('the package of another project')\n")
    for name in ("PYTHONPATH", "PYTHONSAFEPATH", "PREFECT_API_URL", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    monkeypatch.setenv("PIP_CONSTRAINT", str(ROOT / "constraints.txt"))
    run(sys.executable, "-m", "venv", environment, cwd=tmp_path)
    python, gramhouse = environment / "bin/python", environment / "bin/gramhouse"
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
    run(python, *pip, *built.glob("gramhouse-*.whl"), cwd=tmp_path)

    assert run(python, "-c", "import flows; print(flows.__file__)", cwd=project).startswith(str(environment))
    assert "the most likes" in run(gramhouse, "demo", cwd=project, **PROXIES)
    snapshot = ("--snapshot", "data/demo/analytics.duckdb")
    assert run(python, "-m", "flows.cli", "query", "FROM post_performance LIMIT 1", *snapshot, cwd=project)
    run(gramhouse, "report", "page.html", *snapshot, cwd=project)
