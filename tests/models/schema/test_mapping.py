import re

import pytest

from models.schema.mapping_built_in import BUILT_IN
from models.tables import core_media


def test_every_mapped_column_is_a_column_of_media() -> None:
    assert all(mapping.column in core_media.column_names for mapping in BUILT_IN.columns)


def test_every_path_is_a_plain_one_and_named_once() -> None:
    for paths in (BUILT_IN.media_id, *(mapping.paths for mapping in BUILT_IN.columns)):
        assert len(set(paths)) == len(paths)
        assert all(re.fullmatch(r"(/[A-Za-z_][A-Za-z0-9_]*)+", path) for path in paths)


@pytest.mark.parametrize(
    ("address", "stable"),
    [
        ("https://x/1.jpg?oe=1&_nc_ht=a_b&keep=2", "https://x/1.jpg?&&keep=2"),
        ("https://x/1?X-Amz-Signature=ab%2F&X-Amz-Date=1", "https://x/1?&"),
        ("https://x/1?Expires=1&Signature=a~b&Key-Pair-Id=K", "https://x/1?&&"),
        ("https://x/1?hoe=1&noe=2&oeuvre=3", "https://x/1?hoe=1&noe=2&oeuvre=3"),
        ('"a?oe=1","b"', '"a?","b"'),
        ("a?oe=1 and on", "a? and on"),
    ],
)
def test_only_signatures_are_removed_from_addresses(address: str, stable: str) -> None:
    for mark, pattern in BUILT_IN.volatile_patterns.items():
        address = re.sub(pattern, mark, address)
    assert address == stable
