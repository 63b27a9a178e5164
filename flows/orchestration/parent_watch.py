"""Runs a module, and ends it when the process at the other end of a pipe is gone.

`python -m flows.orchestration.parent_watch FD MODULE ARGUMENTS...`, in a session of its own. A parent that is
killed with -9 cannot end its children, but the operating system closes its end of the pipe.
"""

import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable

# Longer than a flow run may take to end politely, and the serving process to see it off.
GRACE = 20.0


def watch(parent_watch: int, pause: Callable[[float], None]) -> None:
    """Wait until the pipe is closed; then end this process politely, and after a while all of its group."""
    while os.read(parent_watch, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    pause(GRACE)
    os.killpg(0, signal.SIGKILL)


def main(arguments: list[str]) -> None:
    """Run the module that the arguments name, as if it had been run by `python -m`."""
    parent_watch, module, *rest = arguments
    # What the module starts must not hold the pipe: it would not notice, nor let others notice.
    os.set_inheritable(int(parent_watch), False)  # noqa: FBT003 - the signature is os's
    threading.Thread(target=watch, args=(int(parent_watch), time.sleep), name="parent-watch", daemon=True).start()
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
