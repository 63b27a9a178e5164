"""The wheel, installed into a separate environment and run outside the repository."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.operator import KEY, PROXIES, ROOT, killed_on_exit
from tests.prefect_api import free_port

PACKAGES = ("flows", "connectors", "models", "deployments")
DATA = (".sql", ".yaml", ".j2", ".toml")

# Packages in the current folder, for a user who runs gramhouse in another project.
DECOYS = ("models", "connectors", "deployments")

pytestmark = pytest.mark.e2e


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=os.environ | env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source, cwd=source)
    return folder


@pytest.mark.long
def test_the_wheel_and_the_source_have_every_module_and_their_data(built: Path) -> None:
    wanted = {
        path.relative_to(ROOT).as_posix()
        for name in PACKAGES
        for path in (ROOT / name).rglob("*")
        if path.suffix in (".py", ".j2") or (path.suffix in DATA and (path.parent / "__init__.py").exists())
    }
    assert {Path(name).suffix for name in wanted} == {".py", *DATA}
    (wheel,) = built.glob("gramhouse-*.whl")
    present = set(zipfile.ZipFile(wheel).namelist())
    assert wanted - present == set()
    assert {name.split("/")[0] for name in present if not name.startswith("gramhouse-")} == set(PACKAGES)
    (sources,) = built.glob("gramhouse-*.tar.gz")
    with tarfile.open(sources) as archive:
        assert wanted <= {name.partition("/")[2] for name in archive.getnames()}


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    environment = tmp_path_factory.mktemp("environment")
    (wheel,) = built.glob("gramhouse-*.whl")
    run(sys.executable, "-m", "venv", environment, cwd=environment)
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
    constraints = str(ROOT / "constraints.txt")
    run(environment / "bin/python", *pip, wheel, cwd=environment, PIP_CONSTRAINT=constraints)
    return environment / "bin"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a project with packages of the same names."""
    for name in DECOYS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('the package of another project')\n")
    for name in ("PYTHONPATH", "PYTHONSAFEPATH", "PREFECT_API_URL", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    return tmp_path


@pytest.fixture
def sandbox(installed: Path, project: Path) -> Iterator[dict[str, str]]:
    """The settings of a sandbox that is served from the wheel."""
    port = free_port()
    command = [str(installed / "gramhouse"), "sandbox", "--port", str(port)]
    serving = subprocess.Popen(command, cwd=project, text=True, stdout=subprocess.PIPE)
    with killed_on_exit(serving):
        assert serving.stdout is not None
        assert serving.stdout.readline().startswith("export GRAMHOUSE_BASE_URL=")
        yield {"GRAMHOUSE_BASE_URL": f"http://127.0.0.1:{port}", "GRAMHOUSE_API_KEY": KEY}


@pytest.mark.long
def test_demo_and_sync_run_from_the_wheel(installed: Path, project: Path, sandbox: dict[str, str]) -> None:
    where = run(installed / "python", "-c", "import flows; print(flows.__file__)", cwd=project)
    assert where.startswith(str(installed.parent))
    assert "the most likes" in run(installed / "gramhouse", "demo", cwd=project, **PROXIES)
    for program in ([installed / "gramhouse"], [installed / "python", "-m", "flows.cli"]):
        assert "complete in" in run(*program, "sync", cwd=project, **sandbox)
    asked = "SELECT count(*) FROM post_performance"
    assert run(installed / "gramhouse", "query", "--format", "csv", asked, cwd=project)
    run(installed / "gramhouse", "report", cwd=project)
