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
    """The Prefect API, configured or that of `up`, cannot be used. The message is one line with the fix."""


class ClusterLost(Exception):  # noqa: N818 - a state of the cluster, not an error of ours
    """The workers are absent or repeatedly fail; the message is one line with the fix. Landed pages are kept."""
