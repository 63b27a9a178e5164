"""The analysts' views, one .sql file each; its first comment says what the view answers."""

import re
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class View:
    """A view of the snapshot: `comment` is what it answers, `select` the query behind it."""

    name: str
    comment: str
    select: str


# In the order of their making: a view may read those before it.
_ORDER = ("freshness", "expired_accounts", "media_history")


def _read(name: str) -> View:
    text = files(__package__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    lines = text.splitlines()
    comment = [re.sub(r"^--\s?", "", line) for line in lines if line.startswith("--")]
    select = "\n".join(line for line in lines if not line.startswith("--")).strip().rstrip(";")
    return View(name, " ".join(comment), select)


def views() -> tuple[View, ...]:
    """Return the views in the order in which they can be made."""
    return tuple(_read(name) for name in _ORDER)
