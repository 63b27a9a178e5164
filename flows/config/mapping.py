"""The `[mapping]` table of gramhouse.toml: additions to the built-in mapping, or replacements of columns' paths."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from models.api import DEFAULT_PATHS, EmptyCursor, MissingCursor, PagePaths
from models.mapping import BUILT_IN, KEYWORDS, ColumnMapping, MediaMapping, Reading, to_keys, to_pointer
from models.views import own_columns


def _path(text: str) -> str:
    return to_pointer(to_keys(text))


def _column_name(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,59}", name) or name in KEYWORDS:
        raise ValueError(
            f"{name!r} is not a valid column name; use lower-case letters, digits and _, at most 60 characters,"
            " and no SQL keyword"
        )
    return name


def _any_path(text: str) -> str:
    path = text if text.startswith(("/", "$.")) else f"$.{text}"
    # A noncharacter stands for an asterisk, which is not part of a path, while it is parsed.
    return _path(path.replace("*", "\uffff")).replace("\uffff", "*")


Path = Annotated[str, AfterValidator(_path)]
ColumnName = Annotated[str, AfterValidator(_column_name)]
AnyPath = Annotated[str, AfterValidator(_any_path)]
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")]


class ColumnSetting(BaseModel, extra="forbid", frozen=True):
    """A canonical column: its paths precede the built-in ones, or replace them with `only`."""

    paths: Annotated[list[Path], Field(min_length=1)]
    type: Reading | None = None
    only: bool = False


class MappingSettings(BaseModel, extra="forbid", frozen=True):
    """How media items are read."""

    media_id: list[Path] = []
    children: list[Path] = []
    columns: dict[ColumnName, ColumnSetting] = {}
    child_columns: dict[ColumnName, ColumnSetting] = {}
    count_words: list[Word] = []
    ignore: list[AnyPath] = []
    content: list[AnyPath] = []
    items: list[Path] = []
    next_cursor: list[Path] = []
    missing_cursor: MissingCursor = DEFAULT_PATHS.missing_cursor
    empty_cursor: EmptyCursor = DEFAULT_PATHS.empty_cursor

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for table, columns, built_in in (
            ("media", self.columns, BUILT_IN.columns),
            ("media_children", self.child_columns, BUILT_IN.child_columns),
        ):
            readings = {column.column: column.reading for column in built_in}
            for name, setting in columns.items():
                reading = readings.get(name)
                if reading is None and name in own_columns(table):
                    raise ValueError(f"{name} is a column that gramhouse fills itself; choose another name")
                if reading and setting.type not in (None, reading):
                    raise ValueError(f"{name} is read as {reading.value}, which cannot be changed")
        return self

    def page_paths(self) -> PagePaths:
        """Return the configured paths of a media page's items and cursor, empty if not configured, and its end."""
        return PagePaths(tuple(self.items), tuple(self.next_cursor), self.missing_cursor, self.empty_cursor)

    def mapping(self) -> MediaMapping:
        """Return the built-in mapping with these settings applied."""
        lists = ("media_id", "children", "count_words", "ignore", "content")
        return replace(
            BUILT_IN,
            columns=_columns(self.columns, BUILT_IN.columns),
            child_columns=_columns(self.child_columns, BUILT_IN.child_columns),
            **{name: _first(getattr(self, name), getattr(BUILT_IN, name)) for name in lists},
        )


def _first(given: list[str], built_in: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*given, *built_in)))


def _columns(given: Mapping[str, ColumnSetting], built_in: tuple[ColumnMapping, ...]) -> tuple[ColumnMapping, ...]:
    known = {column.column: column for column in built_in}
    for name, setting in given.items():
        before = known.get(name, ColumnMapping(name, setting.type or Reading.TEXT, ()))
        paths = tuple(dict.fromkeys(setting.paths)) if setting.only else _first(setting.paths, before.paths)
        known[name] = replace(before, paths=paths)
    return tuple(known.values())
