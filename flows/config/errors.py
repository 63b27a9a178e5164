"""Errors that a user can correct, and exit codes. Without imports of ours, so that every command has them at once."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """The exit codes of all commands. After a signal it is 128 plus the signal's number, as in a shell."""

    COMPLETE = 0
    FAILED = 1
    WRONG_USAGE = 2
    PARTIAL = 3
    BUSY = 4


class SettingsError(Exception):
    """Settings that cannot be used; each argument is a message of one line."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


class TrackerUnreachable(Exception):  # noqa: N818 - a state of the server, not an error of ours
    """The Prefect API, configured or that of `up`, cannot be used. The message is one line with the fix."""


class ClusterLost(Exception):  # noqa: N818 - a state of the cluster, not an error of ours
    """The workers are absent or repeatedly fail; the message is one line with the fix. Landed pages are kept."""


def error_line(error: BaseException) -> str:
    """Return the line that describes an error which a user can fix."""
    # For example, missing permissions or a full disk: an error of the environment, not a bug.
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}. Fix: check path, permissions and disk."
    return str(error)


def refuse(where: str, error: Mapping[str, Any], given: str = "") -> str:
    """Return pydantic's error as a line with the fix. A fix in its message, after a semicolon, has precedence."""
    message = str(error["msg"]).removeprefix("Value error, ").replace("Input should", "it must")
    what, _, fix = message.partition("; ")
    return f"{where}: {what[:1].lower()}{what[1:]}{given}. Fix: {fix or 'change it, or remove it'}."
