"""The first import of Prefect, which reads its settings then."""

import io
import re
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr

from pydantic import ValidationError

from flows.config.errors import SettingsError
from flows.config.settings import set_environment
from models.text import one_line

_SHOWN = 200


def _cause(error: Exception) -> str:
    text, name = str(error) or type(error).__name__, ""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        text = first["msg"]
        # The class ServerUISettings has the settings PREFECT_SERVER_UI_...
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]*", error.title.removesuffix("Settings"))
        name = "_".join(["PREFECT", *words, *map(str, first["loc"])]).upper() + ": " if first["loc"] else ""
    return one_line(f"{name}{text}", _SHOWN).rstrip(".")


def import_prefect(environment: Mapping[str, str] | None = None) -> None:
    """Import Prefect with these environment variables. Call it before modules that import Prefect.

    Raises SettingsError with one line if its settings cannot be read: environment variables, profiles, prefect.toml.
    """
    set_environment(environment or {})
    said = io.StringIO()
    try:
        # Prefect also writes the error to standard error, in several lines.
        with redirect_stderr(said):
            import prefect.context  # noqa: PLC0415 - it is imported here for the first time
        sys.stderr.write(said.getvalue())
        import prefect.main  # noqa: F401, PLC0415
    except Exception as error:
        message = (
            f"Prefect's settings cannot be read: {_cause(error)}. Fix: correct the variable PREFECT_..., or the file"
            " that sets it: prefect.toml, pyproject.toml or .env here, or profiles.toml in Prefect's home."
        )
        raise SettingsError(message) from error
