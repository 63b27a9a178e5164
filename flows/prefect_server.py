"""Prefect's command line, mended so that its server schedules: `python -m flows.prefect_server server start`.

Under SQLAlchemy 2.1 Prefect 3.8.8's scheduler fails at every insert of the runs it plans, and none is ever made: it
hands over each run's `state`, which is no column. SQLAlchemy 2.0 passed such a key over in silence. So does this.
"""

import runpy
import sys

from prefect.server.database.orm_models import FlowRun, TaskRun


def _pass_over(*_: object) -> None:
    pass


def mend() -> None:
    """Let inserts of many runs at once pass over the states, which Prefect inserts by itself afterwards."""
    for table in (FlowRun, TaskRun):
        vars(table)["state"].bulk_dml_setter = _pass_over


if __name__ == "__main__":
    mend()
    sys.argv[0] = "prefect"
    runpy.run_module("prefect", run_name="__main__", alter_sys=True)
