"""The entry point of the command line: `gramhouse`, or `python -m flows.cli`.

It imports little: until `run`, Ctrl-C is a traceback.
"""

import gc
import signal

from flows.cli.output.streams import keep_usable
from flows.process import prepare_process


def run() -> None:
    """Run the command line, and exit with its code."""
    # Ctrl-C ends the process, as other signals do. A shell's background command ignores it.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    keep_usable()
    prepare_process()
    from flows.cli.app import main

    try:
        main()
    finally:
        # Otherwise Python looks for cycles among all objects before it ends, which takes 0.2 s after a sync.
        gc.freeze()


if __name__ == "__main__":
    run()
