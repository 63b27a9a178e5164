"""The page of `gramhouse --help`, in the layout of Typer's, but without Rich, whose import takes too long."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence

import typer

Row = tuple[str, str]

# Corners, edges and sides of a panel; in ASCII if the output's encoding has no box-drawing characters.
_LINES = tuple("╭╮╰╯─│")
_ASCII = tuple("++++-|")

# The minimum width of the text next to a name, as in Typer.
_LEAST = 10


def wants_colour() -> bool:
    """Return whether standard output is coloured. NO_COLOR and FORCE_COLOR have precedence over the terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


def _lines() -> tuple[str, ...]:
    try:
        "".join(_LINES).encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return _ASCII
    return _LINES


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, _LEAST), break_on_hyphens=False)


def _panel(title: str, rows: Sequence[Row], *, width: int, names: int) -> Iterator[str]:
    left, right, low_left, low_right, edge, side = _lines()

    def dim(text: str) -> str:
        return typer.style(text, dim=True)

    room = width - names - 6
    yield dim(f"{left}{edge} {title} ".ljust(width - 1, edge) + right)
    for name, text in rows:
        for index, line in enumerate(_wrapped(text, room)):
            shown = typer.style(f"{'' if index else name:<{names}}", fg="cyan", bold=True)
            yield f"{dim(side)} {shown}  {line:<{room}} {dim(side)}"
    yield dim(f"{low_left}{edge * (width - 2)}{low_right}")


def page(usage: str, text: str, panels: Sequence[tuple[str, Sequence[Row]]]) -> str:
    """Return the page, as wide as the terminal; `panels` are titles with rows of a name and its description."""
    width = shutil.get_terminal_size().columns
    lines = ["", *(f" {typer.style(line, bold=True)}" for line in _wrapped(usage, width - 2)), ""]
    lines += [*(f" {line}" for line in _wrapped(text, width - 2)), ""]
    names = max(len(name) for _, rows in panels for name, _ in rows)
    for title, rows in panels:
        lines += _panel(title, rows, width=width, names=names)
    return "\n".join(lines)
