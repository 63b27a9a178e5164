"""External text in the output contains no terminal escapes and is not interpreted as markup."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from connectors.warehouse.queries.reader import Stream
from flows.cli.table import print_stream
from flows.cli.terminal import clean, out
from tests.operator import Cli


@pytest.mark.parametrize("text", ["[red]x[/]", "[link=https://x]y[/link]", "\\[bold]x"])
def test_markup_is_only_text(text: str) -> None:
    stream = io.StringIO()
    Console(file=stream, width=80, force_terminal=True, highlight=False).print(clean(text))
    assert stream.getvalue().strip() == text


@pytest.mark.usefixtures("empty")
def test_output_in_a_pipe_is_text_neither_truncated_nor_padded(run_cli: Cli) -> None:
    long = "repeat('long ', 200) || ':smile: x:b:y end'"
    done = run_cli("query", f"FROM (VALUES ('short'), ({long})) AS t(\"c:b:d\")")
    title, _, *lines = done.stdout.splitlines()[-4:]
    assert (done.code, title, lines[0]) == (0, "c:b:d", "short")
    assert lines[1].endswith("long :smile: x:b:y end")
    assert done.stdout.splitlines() == [line.rstrip() for line in done.stdout.splitlines()]
    assert "x:b:y.duckdb" in run_cli("query", "SELECT 1", "--snapshot", "x:b:y.duckdb").stderr


NUMBER, LETTERS, LONG, SPACED = "17841401234567890", "a caption of 23 letters", f"{'x' * 200} y", f"{'x' * 90} y"


def test_columns_fit_and_only_prose_is_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for width, row, expected in (
        (80, (NUMBER, LETTERS), [f"{NUMBER}  {LETTERS}"]),
        (35, (NUMBER, LETTERS), [f"{NUMBER}  a caption of 23…"]),
        (28, (NUMBER, LETTERS), [f"{NUMBER} a caption…"]),
        (27, (NUMBER, LETTERS), [NUMBER, "(1 more column: b;", "`--format line` shows all)"]),
        (10, (NUMBER, "a word"), [NUMBER[:10], NUMBER[10:], "(1 more", "column: b;"]),
        (80, (LONG, NUMBER), [f"{'x' * 60}…  {NUMBER}"]),
        (80, ("so short", LONG), [f"so short  {'x' * 69}…"]),
        (40, (SPACED, SPACED, NUMBER), [f"xxxxxxxxx… xxxxxxxxxx… {NUMBER}"]),
    ):
        monkeypatch.setattr(out, "width", width)
        print_stream(Stream(("a", "b", "c")[: len(row)], ("VARCHAR",) * len(row), iter([[row]])), "table")
        lines = capsys.readouterr().out.splitlines()
        assert lines[2 : 2 + len(expected)] == expected
        assert max(map(len, lines)) <= width


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("markdown", "| a | b |\n| ---: | --- |\n| 1 | x\\|y |\n| 2 |  |\n"),
        ("jsonl", '{"a":1,"b":"x|y"}\n{"a":2,"b":null}\n'),
        ("line", "a 1\nb x|y\n\na 2\nb NULL\n\n"),
        ("csv", "a,b\n1,x|y\n2,\n"),
        ("json", '{"columns": ["a","b"], "rows": [{"a":1,"b":"x|y"}, {"a":2,"b":null}], "exit_code": 0}\n'),
    ],
)
def test_a_query_is_written_in_every_format_and_to_a_file(empty: Path, run_cli: Cli, style: str, expected: str) -> None:
    asked, target = ("query", "FROM (VALUES (1, 'x|y'), (2, NULL)) AS t(a, b)", "-f", style), empty.with_name("rows")
    code, shown, err = run_cli(*asked)
    assert (code, shown, err) == (0, expected, "(2 rows)\n")
    assert run_cli(*asked, "-o", str(target)) == (0, "", f"(2 rows in {target})\n")
    assert target.read_text() == shown


def test_a_query_does_not_replace_a_file_if_it_fails_or_the_file_of_another_kind(empty: Path, run_cli: Cli) -> None:
    target = empty.with_name("rows.csv")
    target.write_text("mine")
    late = "SELECT CASE WHEN range < 300000 THEN range ELSE error('too far') END AS a FROM range(300001)"
    assert run_cli("query", late, "-f", "csv", "-o", str(target)).code == 2
    assert (target.read_text(), sorted(path.name for path in empty.parent.iterdir())) == (
        "mine", ["rows.csv", "s.duckdb"],
    )  # fmt: skip
    for name in (str(empty), "rows.parquet"):
        done = run_cli("query", "SELECT 1", "-o", name)
        assert (done.code, "is not the format of a query's result" in done.stderr) == (2, True)
    assert run_cli("query", "SELECT 'b' || chr(13) AS a", "-o", str(target)).code == 0
    assert target.read_bytes() == b'a\n"b\r"\n'
