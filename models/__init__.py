"""Value types, declarations and decisions. Nothing here does IO but `release`."""


def release() -> str:
    """Return the installed version of gramhouse, or `unreleased` if it is not installed as a package."""
    # Imported here: it takes a tenth of the time of `gramhouse --help`, which needs no version.
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return version("gramhouse")
    except PackageNotFoundError:
        return "unreleased"
