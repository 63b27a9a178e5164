import re
from dataclasses import replace

import pytest

from connectors.warehouse.storage.declared import TABLES
from models.mapping import BUILT_IN, Mapping


def test_every_mapped_column_is_a_column_of_media() -> None:
    assert all(mapping.column in TABLES["core.media"].types for mapping in BUILT_IN.columns)


def test_every_path_is_a_plain_one_and_named_once() -> None:
    for paths in (BUILT_IN.media_id, *(mapping.paths for mapping in BUILT_IN.columns)):
        assert len(set(paths)) == len(paths)
        assert all(re.fullmatch(r"(/[A-Za-z_][A-Za-z0-9_]*)+", path) for path in paths)


@pytest.mark.parametrize(
    ("text", "stable"),
    [
        ("https://x/1.jpg?oe=1&_nc_ht=a_b&keep=2", "https://x/1.jpg"),
        ("https://x/1?X-Amz-Signature=ab%2F&X-Amz-Date=1", "https://x/1"),
        ("https://x/1?keep=2&amp;SIG=1#top", "https://x/1"),
        ("//x/1?token=1", "//x/1"),
        ("https://x/1?hoe=1&noe=2&oeuvre=3", "https://x/1?hoe=1&noe=2&oeuvre=3"),
        (
            '{"a":"https://x/1?oe=1","b":"https:\\/\\/x\\/1?a=1\\u0026oe=1"}',
            '{"a":"https://x/1","b":"https:\\/\\/x\\/1"}',
        ),
        ("see https://x/1?oe=1", "see https://x/1?oe=1"),
        ("a?oe=1", "a?oe=1"),
    ],
)
def test_signed_urls_are_known_by_their_parameters(text: str, stable: str) -> None:
    assert re.sub(BUILT_IN.signed_url_pattern, r"\1", text) == stable


def test_a_mapping_is_stored_with_what_it_ignores() -> None:
    mapping = replace(BUILT_IN, ignore=("/a/*",))
    assert Mapping.from_json(mapping.to_json()) == mapping
    before_ignore = BUILT_IN.to_json().replace(', "ignore": []', "")
    assert Mapping.from_json(before_ignore) == BUILT_IN
    assert (mapping.reads_like(BUILT_IN), mapping.reads_like(replace(BUILT_IN, count_words=()))) == (True, False)
