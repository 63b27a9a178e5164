"""deployments/prefect.yaml on a work pool: deployed to a real server and executed by a real worker."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.api.server import Api
from tests.harness.against_api import assert_matches_api
from tests.operator import KEY, TIMEOUT, Operator, killed_on_exit
from tests.prefect_api import ask

pytestmark = [pytest.mark.e2e, pytest.mark.prefect, pytest.mark.long]


@dataclass(frozen=True)
class Pool:
    """A Prefect server, and a user of the `prefect` command with their own PREFECT_HOME."""

    api: str
    server: Path
    operator: Operator

    def ask(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        return ask(self.api, path)

    def type(self, *arguments: str) -> str:
        """Run a `prefect` command without prompts."""
        folder = self.operator.folder
        folder.mkdir(exist_ok=True)
        # PWD is the shell's, from which Prefect takes the folder.
        env = {
            "PREFECT_API_URL": self.api,
            "PREFECT_HOME": str(folder / "prefect"),
            "DO_NOT_TRACK": "1",
            "PWD": str(folder),
        }
        with killed_on_exit(self.operator.start_python("-m", "prefect", "--no-prompt", *arguments, env=env)) as process:
            message = "\n".join(process.communicate(timeout=2 * TIMEOUT))
        assert process.returncode == 0, message
        return message


@pytest.fixture
def pool(api: str, home: Path, operator: Operator) -> Pool:
    return Pool(api, home, operator)


def test_a_deployed_run_is_executed_by_the_pools_worker(pool: Pool, service: Api) -> None:
    ask(pool.api, "work_pools/", {"name": "gramhouse", "type": "process"})
    pool.type("deploy", "--all", "--prefect-file", "deployments/prefect.yaml")

    deployed = {one["name"]: one for one in pool.ask("deployments/filter")}
    assert {
        name: [(found["schedule"]["cron"], found["schedule"]["timezone"]) for found in one["schedules"]]
        for name, one in deployed.items()
    } == {
        "nightly": [("15 2 * * *", "UTC")],
        "due": [("15 0-1,3-23 * * *", "UTC")],
        "backfill": [],
        "publish": [],
    }
    assert deployed["due"]["parameters"] == {"options": {"due": True}}
    for one in deployed.values():
        assert one["tags"] == ["gramhouse"]
        assert one["work_pool_name"] == "gramhouse"
        assert one["pull_steps"] == []
        assert bool(one["concurrency_options"]) == bool(one["schedules"])
        assert one["job_variables"]["working_dir"] == str(pool.operator.folder)

    pool.operator.sync()
    service.day = 1
    # Both runs are due at the same time: one waits for the other's lock.
    asked = [pool.ask(f"deployments/{deployed[name]['id']}/create_flow_run") for name in ("nightly", "publish")]
    log = pool.type("worker", "start", "--pool", "gramhouse", "--run-once")

    runs = {one["id"]: one["state"] for one in pool.ask("flow_runs/filter")}
    for run in asked:
        assert runs[run["id"]]["type"] == "COMPLETED", f"{runs[run['id']]}\n{log}"
    assert_matches_api(pool.operator.ask, service)
    for path in [*pool.server.rglob("*"), *(pool.operator.folder / "prefect").rglob("*")]:
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    assert KEY not in log
