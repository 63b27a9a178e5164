"""Errors that a person can correct, without what raises them: catching one imports nothing else."""


class SettingsError(Exception):
    """Settings that cannot be used; each argument is one line for a person."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


class TrackerUnreachable(Exception):  # noqa: N818 - a state of the server, not a fault of ours
    """The Prefect API that is configured does not answer; one line with what to do."""

    def __init__(self, url: str) -> None:
        fix = "start the server (`gramhouse up`; its address ends in /api), or unset PREFECT_API_URL"
        super().__init__(f"{url} does not answer. Fix: {fix}.")


class ClusterLost(Exception):  # noqa: N818 - a state of the cluster, not a fault of ours
    """The cluster of workers does not do its work; one line with what to do. What had landed is kept."""
