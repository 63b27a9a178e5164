"""`make demo-cluster`: a sync on a Dask cluster of processes on this machine; one worker is killed during it."""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.e2e.cluster.dask_cluster import Cluster
from tests.e2e.processes import KEY, TIMEOUT, Operator, killed_on_exit, start_sandboxes, wait_until
from tests.harness.against_api import assert_matches_api

SIZE = {"accounts": 300, "posts": 120, "seed": 5}
REQUESTS_BEFORE_THE_KILL = 400


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Sync, kill a worker, and compare; return the exit code, or raise AssertionError if the snapshot differs."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        service = stack.enter_context(start_sandboxes())(**SIZE)
        operator = Operator(Path(folder), {"GRAMHOUSE_BASE_URL": service.url, "GRAMHOUSE_API_KEY": KEY})
        cluster = Cluster(operator, stack)
        operator.env |= {"GRAMHOUSE_ENGINE": "dask", "GRAMHOUSE_SCHEDULER": cluster.scheduler}
        operator.env |= {"GRAMHOUSE_CONCURRENCY": "4"}
        cluster.start_scheduler()
        first, _ = cluster.start_worker(), cluster.start_worker()
        _print(f"API server at {service.url}, scheduler at {cluster.scheduler}, two workers.")
        _print("$ gramhouse sync --engine dask")
        with killed_on_exit(operator.start("sync")) as process:
            wait_until(
                lambda: len(service.requests) >= REQUESTS_BEFORE_THE_KILL, "the workers to be in the middle of it"
            )
            first.kill()
            _print(f"After {len(service.requests):,} requests: kill -9 of one worker.")
            out, err = process.communicate(timeout=TIMEOUT)
        if process.returncode != 0:
            _print(out + err)
            return process.returncode
        _print(out.rstrip())
        requests = [(one.account_id, one.surface, one.cursor) for one in service.requests]
        assert_matches_api(operator.ask, service)
        ((items,),) = operator.ask("SELECT count(*) FROM media")
        _print(f"The snapshot has all {items:,} items of the API server, each once and byte for byte.")
        _print(f"Requests: {len(requests):,}, of which {len(requests) - len(set(requests)):,} were repeated.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
