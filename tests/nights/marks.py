"""Marks of tests that fail today: each names the issue that mends the fault, and only an assertion may fail."""

import pytest


def _mended_by(title: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(strict=True, raises=AssertionError, reason=title)


CORE_3 = _mended_by("Core 3: maintenance, source, sandbox and bucket at half their size")
FLOWS = _mended_by("Flows that a Prefect user would have written, and scale by prefect-dask")
COMMANDS = _mended_by("A command line and reports on libraries, that fit 80 columns and a phone")
NEW = _mended_by(
    "What none of the others has: a plan before a night, freshness instead of schedules, yesterday's table, an"
    " agent's door"
)
