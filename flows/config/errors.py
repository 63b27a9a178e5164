"""Errors that a user can correct. In a module without imports, so that catching them imports nothing else."""


class SettingsError(Exception):
    """Settings that cannot be used; each argument is a message of one line."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


def error_line(error: BaseException) -> str:
    """Return the line that describes an error which a user can fix."""
    # For example, missing permissions or a full disk: an error of the environment, not a bug.
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}. Fix: check path, permissions and disk."
    return str(error)


class TrackerUnreachable(Exception):  # noqa: N818 - a state of the server, not an error of ours
    """The configured Prefect API cannot be used; `what` is why. The message is one line with the fix."""

    def __init__(self, url: str | None, what: str = "does not answer", *, refused: bool = False) -> None:
        fix = "start the server (`gramhouse up`; its address ends in /api), or unset PREFECT_API_URL"
        if refused:
            what, fix = "refuses the login", "set PREFECT_API_AUTH_STRING, or PREFECT_API_KEY, as the server requires"
        super().__init__(f"{url or 'The Prefect API'} {what}. Fix: {fix}.")


class ProcessError(Exception):
    """A process did not start, or ended unexpectedly; the message has the last lines of its log."""


class ClusterLost(Exception):  # noqa: N818 - a state of the cluster, not an error of ours
    """The workers are absent or repeatedly fail; the message is one line with the fix. Landed pages are kept."""
