"""deployments/prefect.yaml on a work pool: deployed to a real server and executed by a real worker."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.api.server import Api
from tests.harness.against_api import assert_matches_api
from tests.operator import KEY, Operator
from tests.prefect_api import ask

pytestmark = [pytest.mark.e2e, pytest.mark.prefect, pytest.mark.long]


def test_a_deployed_run_is_executed_by_the_pools_worker(
    api: str, home: Path, operator: Operator, python: Callable[..., str], service: Api
) -> None:
    ask(api, "work_pools/", {"name": "gramhouse", "type": "process"})
    python("-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", "deployments/prefect.yaml")

    deployed = {one["name"]: one for one in ask(api, "deployments/filter")}
    assert deployed.keys() == {"nightly", "due", "backfill", "publish"}
    for one in deployed.values():
        assert (one["work_pool_name"], one["pull_steps"]) == ("gramhouse", [])
        assert bool(one["concurrency_options"]) == bool(one["schedules"])
        assert one["job_variables"]["working_dir"] == str(operator.folder)

    operator.sync()
    service.day = 1
    # Both runs are due at the same time: one waits for the other's lock.
    asked = [ask(api, f"deployments/{deployed[name]['id']}/create_flow_run") for name in ("nightly", "publish")]
    log = python("-m", "prefect", "worker", "start", "--pool", "gramhouse", "--run-once")

    runs = {one["id"]: one["state"] for one in ask(api, "flow_runs/filter")}
    for run in asked:
        assert runs[run["id"]]["type"] == "COMPLETED", f"{runs[run['id']]}\n{log}"
    assert_matches_api(operator.ask, service)
    for path in [*home.rglob("*"), *(operator.folder / "prefect").rglob("*")]:
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    assert KEY not in log
