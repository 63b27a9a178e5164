"""Parsing of surfaces on the command line."""

from collections.abc import Sequence

from flows.config.errors import SettingsError
from models.partition import SURFACES, Surface


def to_surfaces(names: Sequence[str] | None) -> list[Surface]:
    """Return the given surfaces; empty if none are given. Raises SettingsError for an unknown surface."""
    known = {str(surface): surface for surface in SURFACES}
    wrong = [name for name in names or () if name not in known]
    if wrong:
        message = f"--surface {wrong[0]}: unknown surface. Fix: use posts or stories."
        raise SettingsError(message)
    return [known[name] for name in names or ()]
