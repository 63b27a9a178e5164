"""Runs a module, and ends it when the process at the other end of a pipe is gone.

`python -m flows.orchestration.parent_watch FD MODULE ARGUMENTS...`, in a separate session. A parent that is
killed with -9 cannot end its children, but the operating system closes its end of the pipe.
"""

import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable

# Seconds; longer than a flow run and the serving process may take to shut down.
GRACE = 20.0


def watch(parent_watch: int, pause: Callable[[float], None]) -> None:
    """Wait until the pipe is closed; then send SIGTERM to this process, and after GRACE SIGKILL to its group."""
    while os.read(parent_watch, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    pause(GRACE)
    os.killpg(0, signal.SIGKILL)


def main(arguments: list[str]) -> None:
    """Run the module named by the arguments, as `python -m` does."""
    parent_watch, module, *rest = arguments
    # Processes that the module starts must not inherit the pipe: they would keep it open.
    os.set_inheritable(int(parent_watch), False)  # noqa: FBT003 - the signature is os's
    threading.Thread(target=watch, args=(int(parent_watch), time.sleep), name="parent-watch", daemon=True).start()
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
