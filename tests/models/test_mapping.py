import re
from dataclasses import replace

from models.mapping import BUILT_IN, Mapping


def test_every_path_is_a_plain_one_and_named_once() -> None:
    for paths in (BUILT_IN.media_id, *(mapping.paths for mapping in BUILT_IN.columns)):
        assert len(set(paths)) == len(paths)
        assert all(re.fullmatch(r"(/[A-Za-z_][A-Za-z0-9_]*)+", path) for path in paths)


def test_a_mapping_is_stored_with_what_it_ignores() -> None:
    mapping = replace(BUILT_IN, ignore=("/a/*",), content=("/b",))
    assert Mapping.from_json(mapping.to_json()) == mapping
