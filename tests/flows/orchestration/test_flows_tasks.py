"""The tasks of a flow run: their names, arguments that can be pickled, and the same steps as in a direct run."""

import inspect
import pickle
from datetime import timedelta
from pathlib import Path

import pytest

from flows import tasks
from flows.engine import steps
from flows.engine.accounts import ListedAccount
from flows.engine.batches import Batch
from flows.engine.run_request import RunRequest

NAMES = ("list_accounts", "sync_batch", "merge", "publish")


@pytest.mark.parametrize("name", NAMES)
def test_a_task_is_the_step_of_its_name(name: str) -> None:
    task, step = getattr(tasks, name), getattr(steps, name)
    assert task.name == name
    assert inspect.signature(task.fn) == inspect.signature(step)
    assert getattr(tasks.TASKS, name) is task
    assert getattr(steps.DIRECT, name) is step
    assert task.retries == 0, "retries are the engine's"
    assert task.persist_result is False


@pytest.mark.parametrize(
    "argument",
    [
        "run",
        ("posts", "stories"),
        Batch(3, (ListedAccount("a", expired=True), ListedAccount("b", expired=False, unknown_status="new"))),
        RunRequest(Path("analytics.duckdb"), timedelta(hours=12), "0.2.0"),
    ],
)
def test_arguments_of_tasks_can_be_pickled(argument: object) -> None:
    assert pickle.loads(pickle.dumps(argument)) == argument
