"""Tests of the secret search: a canary is found in every encoding and in every file."""

import json
from urllib.parse import quote

import pytest

from tests.security.canary import tells

KEY = "cnry/7Zq4+f1e9b==Xw"


@pytest.mark.parametrize(
    "text",
    [
        f"Bearer {KEY}!",
        quote(KEY),
        quote(KEY, safe=""),
        quote(KEY, safe="").lower(),
        KEY.replace("/", "\\/"),
        json.dumps(KEY),
        "".join(f"\\u{ord(char):04X}" for char in KEY),
        KEY.replace("+", "\\u002b").replace("/", "\\u002f").replace("=", "\\u003d"),
    ],
)
def test_every_spelling_is_known(text: str) -> None:
    assert tells(text, KEY)
    assert not tells(text, "another" + KEY[::-1])
