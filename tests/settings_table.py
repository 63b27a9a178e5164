"""The table of settings in docs/settings.md. `python -m tests.settings_table FILE` writes it into the file."""

import re
import sys
from pathlib import Path

from pydantic.fields import FieldInfo

from flows.config.environment import PREFIX
from flows.config.settings import Settings

_HEAD = "| setting | default | |\n|---|---|---|\n"


def markdown() -> str:
    """Return the table in Markdown, a row for each setting: its variable, its default, its description and range."""
    return _HEAD + "".join(
        f"| `{PREFIX}{name.upper()}` | {_default(field)} | {field.description} |\n"
        for name, field in Settings.model_fields.items()
    )


def _default(field: FieldInfo) -> str:
    if field.default in {None, ()}:
        return ""
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(re.sub(r"(^\|.*\n)+", lambda _: markdown(), page.read_text("utf-8"), count=1, flags=re.M), "utf-8")
