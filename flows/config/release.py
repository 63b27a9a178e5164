"""The version of gramhouse that runs."""

from importlib.metadata import PackageNotFoundError, version


def release() -> str:
    """Return the version of gramhouse that runs."""
    try:
        return version("gramhouse")
    except PackageNotFoundError:
        return "unreleased"
