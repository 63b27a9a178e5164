import re
import tomllib
from pathlib import Path

import pytest

from flows.config.errors import SettingsError
from flows.config.settings import load
from models.mapping import BUILT_IN, ColumnMapping, Reading

DOCS = Path(__file__).parents[3] / "docs"


def say(text: str) -> None:
    Path("gramhouse.toml").write_text(text, encoding="utf-8")


def column(name: str, columns: tuple[ColumnMapping, ...]) -> ColumnMapping:
    return next(column for column in columns if column.column == name)


def test_the_example_in_the_docs_works_as_described() -> None:
    example = (DOCS / "mapping.md").read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    assert tomllib.loads(example)
    say(example)
    mapping = load().media_mapping()
    assert mapping.media_id == ("/uuid", *BUILT_IN.media_id)
    assert mapping.children == ("/slides", *BUILT_IN.children)
    assert mapping.count_words == ("bookmarked", *BUILT_IN.count_words)
    assert (mapping.ignore, mapping.content) == (("/fetched_at", "/meta/*"), ("/profile_link",))
    built_in = column("caption", BUILT_IN.columns)
    assert column("caption", mapping.columns).paths == ("/title/text", *built_in.paths)
    assert column("published_at", mapping.columns).paths == ("/when",)
    assert mapping.columns[-1] == ColumnMapping("alt_text", Reading.TEXT, ("/accessibility/label",))
    assert column("media_url", mapping.child_columns).paths[0] == "/src"
    assert len(mapping.columns) == len(BUILT_IN.columns) + 1
    say("[mapping]\nignore = ['a.b', '$.meta.*', '/x.y/*/z', 'a.b', '*.at_*']")
    assert load().media_mapping().ignore == ("/a/b", "/meta/*", "/x.y/*/z", "/*/at_*")


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ('[mapping]\nignore = [""]', "mapping.ignore.0: '$.' is not a path"),
        ('[mapping.columns.caption]\npath = "$.x"', "caption.path: unknown setting. Did you mean paths? "),
        ('[mapping.columns.caption]\npaths = ["$.x"]\ntype = "count"', "caption is read as text"),
        ('[mapping.columns.overflow]\npaths = ["$.x"]', "overflow is a column that gramhouse fills itself"),
        ('[mapping.columns.alt]\npaths = ["$.x"]\ntype = "colour"', "mapping.columns.alt.type: "),
        ('[mapping.columns.select]\npaths = ["$.x"]', "'select' is not a valid column name"),
        ("mapping = 5", "mapping: "),
    ],
)
def test_each_invalid_mapping_entry_is_refused_in_its_own_line(output: str, message: str) -> None:
    say(output)
    with pytest.raises(SettingsError) as raised:
        load()
    lines = str(raised.value).splitlines()
    assert all(re.match(r"gramhouse.toml: mapping", line) and line.endswith((".", "?")) for line in lines)
    assert any(message in line for line in lines)
