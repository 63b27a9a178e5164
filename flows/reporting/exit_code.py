"""The exit codes of commands."""

from collections.abc import Mapping
from enum import IntEnum

from models.runs import RunState

# What a shell adds to the number of the signal that ended a process.
SIGNALLED = 128


class ExitCode(IntEnum):
    """The exit codes of every command; a signal's is SIGNALLED plus its number, as everywhere."""

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
