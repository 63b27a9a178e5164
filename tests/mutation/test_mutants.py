"""The mutants still match the code; `make mutants` applies them."""

from pathlib import Path

import pytest

from tests.mutation.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]


def test_mutants_are_distinct_and_at_least_ten() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 10


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_breaks_one_place(mutant: Mutant) -> None:
    text = (ROOT / mutant.path).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1
    if mutant.path.endswith(".py"):
        compile(text.replace(mutant.old, mutant.new), mutant.path, "exec")
    assert all((ROOT / path).is_file() for path in mutant.caught_by)
