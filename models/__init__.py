"""Value types, declarations and decisions. Nothing here does IO but `release`."""

from importlib.metadata import PackageNotFoundError, version


def release() -> str:
    """Return the installed version of gramhouse, or `unreleased` if it is not installed as a package."""
    try:
        return version("gramhouse")
    except PackageNotFoundError:
        return "unreleased"
