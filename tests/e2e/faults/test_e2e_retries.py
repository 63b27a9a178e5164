"""`--retries`: a run waits for the end of an outage, the wait can be stopped, and permanent errors are not retried."""

import signal

import pytest

from flows.orchestration.processes import free_port
from tests.operator import TIMEOUT, Operator, killed_on_exit

pytestmark = pytest.mark.e2e


def test_an_outage_is_waited_out_and_ctrl_c_ends_the_wait(operator: Operator) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    with killed_on_exit(operator.start("sync", "--retries", "3", GRAMHOUSE_BASE_URL=nowhere)) as process:
        assert process.stderr is not None
        message = []
        for line in process.stderr:
            message.append(line)
            if "Retry 1 of 3" in line:
                break
        assert "The run ended failed. Retry 1 of 3 in 5 min (connection_failed), at " in message[-1], message
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 128 + signal.SIGINT
    assert "Stopped by SIGINT. 0 pages saved. Fix: run the same command to resume." in err
    assert "Traceback" not in out + err
    # The attempt itself had ended: it failed, and was not interrupted.
    assert operator.inside("SELECT state FROM core.runs") == [("failed",)]
