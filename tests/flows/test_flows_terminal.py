"""What comes from outside steers no terminal and is no markup."""

import io

import pytest
from rich.console import Console

from flows.cli.terminal import clean, moment, steerless

HOSTILE = [
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "\x9b31m",
    "bell\x07",
    "back\x08space",
    "line\r\nbreak",
    "\u202egnp.exe",
    "\u2066isolate",
    "zero\u200bwidth",
    "tag\U000e0041",
    "half \ud83d pair",
    "par\u2029agraph",
    "\x00nul",
    "\x7fdel",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_it_reaches_the_terminal(text: str) -> None:
    said = clean(text)
    assert said.isprintable()
    assert said.isascii()
    assert steerless(text).isprintable()


def test_newlines_and_tabs_stay_only_where_they_are_asked_for() -> None:
    assert clean("a\n\tb") == "a  b"
    assert clean("a\n\tb\x1b", newlines=True) == "a\n\tb "


@pytest.mark.parametrize("text", ["[red]x[/]", "[/]", "[link=https://x]y[/link]", "\\[bold]x", "[@click=x]y"])
def test_markup_is_only_text(text: str) -> None:
    stream = io.StringIO()
    Console(file=stream, width=80, force_terminal=True, highlight=False).print(clean(text))
    assert stream.getvalue().strip() == text


def test_emoji_and_other_scripts_stay() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert clean(f"{family} Grüße 你好") == f"{family} Grüße 你好"


def test_sizes_and_times() -> None:
    assert moment(None) == ""
