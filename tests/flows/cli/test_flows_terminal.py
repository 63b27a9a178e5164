"""External text in the output contains no terminal escapes and is not interpreted as markup."""

import io
from pathlib import Path

import duckdb
import pytest
from rich.console import Console

from connectors.warehouse.queries.reader import Stream
from flows.cli.output.query import print_table
from flows.cli.output.terminal import clean, out, without_control_characters
from tests.cli_runner import Cli

HOSTILE = [
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "\x9b31m",
    "bell\x07",
    "line\r\nbreak",
    "\u202egnp.exe",
    "zero\u200bwidth",
    "tag\U000e0041",
    "half \ud83d pair",
    "par\u2029agraph",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_control_characters_do_not_reach_the_terminal(text: str) -> None:
    message = clean(text)
    assert message.isprintable()
    assert message.isascii()
    assert without_control_characters(text).isprintable()


def test_newlines_and_tabs_stay_only_where_they_are_asked_for() -> None:
    assert clean("a\n\tb") == "a  b"
    assert clean("a\n\tb\x1b", newlines=True) == "a\n\tb "


@pytest.mark.parametrize("text", ["[red]x[/]", "[link=https://x]y[/link]", "\\[bold]x"])
def test_markup_is_only_text(text: str) -> None:
    stream = io.StringIO()
    Console(file=stream, width=80, force_terminal=True, highlight=False).print(clean(text))
    assert stream.getvalue().strip() == text


def test_names_between_colons_stay_text(tmp_path: Path, run_cli: Cli) -> None:
    snapshot = tmp_path / "a:b:c.duckdb"
    with duckdb.connect(snapshot) as db:
        db.execute("CREATE TABLE t AS SELECT 1")
    code, out, _ = run_cli("query", "SELECT ':smile: x:b:y' AS \"c:b:d\"", "--snapshot", str(snapshot))
    assert code == 0
    assert "c:b:d" in out
    assert ":smile: x:b:y" in out
    assert "x:b:y.duckdb" in run_cli("query", "SELECT 1", "--snapshot", str(tmp_path / "x:b:y.duckdb"))[2]


def test_output_in_a_pipe_is_neither_truncated_nor_padded(tmp_path: Path, run_cli: Cli) -> None:
    snapshot = tmp_path / "s.duckdb"
    with duckdb.connect(snapshot) as db:
        db.execute("CREATE TABLE t AS SELECT repeat('long ', 200) || 'end' AS caption UNION ALL SELECT 'short'")
    code, out, _ = run_cli("query", "FROM t ORDER BY length(caption)", "--snapshot", str(snapshot))
    lines = out.splitlines()
    assert code == 0
    assert lines[-1].endswith("long end")
    assert "short" in lines
    assert lines == [line.rstrip() for line in lines]


@pytest.mark.parametrize(
    ("width", "rows", "expected"),
    [
        (28, 11, ["id            name", "twelve chars  first"]),
        (20, 11, ["id            name", "twelve chars  first"]),
        (19, 11, ["id", "twelve chars", "(1 more column: name)"]),
        (5, 11, ["id", "twelv", "e", "chars", "(1 more column: name)"]),
        (17, 1, ["id    twelve", "chars", "name  first"]),
    ],
)
def test_a_table_shows_whole_columns_or_one_line_for_each_field(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int, rows: int, expected: list[str]
) -> None:
    monkeypatch.setattr(out, "width", width)
    batch = [("twelve chars", "first")] * rows
    print_table(Stream(("id", "name"), ("VARCHAR", "VARCHAR"), iter([batch])))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert [line for line in dict.fromkeys(lines) if "─" not in line] == [" ".join(line.split()) for line in expected]
