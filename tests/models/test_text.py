"""Text from outside, for messages."""

from models.runs import one_line


def test_one_line_is_printable_and_bounded() -> None:
    assert one_line(" a\n\x1b[31mb\u202e\ud83d  c ") == "a [31mb c"
    assert one_line("x" * 201) == "x" * 199 + "…"
    assert one_line("x" * 200) == "x" * 200
    assert one_line("\n" * 5000 + "lost").endswith("…")
