"""The exit codes of commands."""

from collections.abc import Mapping
from enum import IntEnum

from models.runs import RunState


class ExitCode(IntEnum):
    """The exit codes of all commands. After a signal it is 128 plus the signal's number, as in a shell."""

    COMPLETE = 0
    FAILED = 1
    WRONG_USAGE = 2
    PARTIAL = 3
    BUSY = 4


EXIT_OF: Mapping[RunState, ExitCode] = {
    RunState.COMPLETE: ExitCode.COMPLETE,
    RunState.PARTIAL: ExitCode.PARTIAL,
    RunState.FAILED: ExitCode.FAILED,
}
