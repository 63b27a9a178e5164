# ruff: noqa: INP001 - it is copied to a dbt project
"""Runs dbt after each publish: serves a Prefect deployment, with the automation that starts it.

Run it in this folder beside `gramhouse up`, in gramhouse's environment: dbt has its own (DBT).
"""

import os
import subprocess

from prefect import flow
from prefect.events import DeploymentEventTrigger

DBT = os.environ.get("DBT", "dbt")

# A run sends its event when it has published. A failed run publishes too, but the next dbt run is early enough for
# that. The flow `publish` sends no event of its own.
TRIGGERS = [
    DeploymentEventTrigger(
        name="dbt: a run has published",
        expect={"gramhouse.run.complete", "gramhouse.run.partial"},
        parameters={"after": "{{ event.resource.name }}"},
    ),
    DeploymentEventTrigger(
        name="dbt: a snapshot was published without a run",
        expect={"prefect.flow-run.Completed"},
        match_related={"prefect.resource.role": "flow", "prefect.resource.name": "publish"},
        parameters={"after": "publish"},
    ),
]


@flow(name="dbt", log_prints=True, retries=2, retry_delay_seconds=60)
def dbt(after: str = "a person's request") -> None:
    """Load what is new in the snapshot. Repeating it, or missing a publish, changes nothing in the result."""
    print(f"After {after}.")  # noqa: T201 - in the log of the run
    subprocess.run([DBT, "build", "--exclude", "source:*", "--profiles-dir", "."], check=True)  # noqa: S603 - as configured


if __name__ == "__main__":
    # One at a time: a second one waits, and loads the newer snapshot.
    dbt.serve(name="after-publish", triggers=TRIGGERS, limit=1, global_limit=1)
