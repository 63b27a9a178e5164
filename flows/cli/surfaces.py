"""Parsing of surfaces on the command line."""

from collections.abc import Sequence

from flows.config.errors import SettingsError
from models.feeds import SURFACES


def to_surfaces(names: Sequence[str] | None) -> list[str]:
    """Return the given surfaces; empty if none are given. Raises SettingsError for an unknown surface."""
    wrong = [name for name in names or () if name not in SURFACES]
    if wrong:
        message = f"--surface {wrong[0]}: unknown surface. Fix: use {' or '.join(sorted(SURFACES))}."
        raise SettingsError(message)
    return [*(names or ())]
