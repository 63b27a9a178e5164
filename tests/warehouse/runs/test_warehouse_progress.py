from connectors.warehouse.runs import progress
from models.page_commit import PageCommit, ScopeCooldown
from tests.warehouse.rig import Rig, at


def test_only_active_cooldowns_are_read_and_the_longest_counts(rig: Rig) -> None:
    waits: dict[str, list[float]] = {"catalogue": [2, 5, 3], "anna": [1], "ben": [0.5, 4]}
    rig.record(*(PageCommit(cooldown=ScopeCooldown(scope, at(h))) for scope, hours in waits.items() for h in hours))
    assert rig.call(progress.cooldowns, now=at(1)) == {"catalogue": at(5), "ben": at(4)}
    assert rig.call(progress.cooldowns, now=at(5)) == {}


def test_only_the_cooldowns_that_a_person_saw_are_lifted(rig: Rig) -> None:
    ends = {"soon": at(23), "late": at(48), "later": at(72)}
    rig.record(*(PageCommit(cooldown=ScopeCooldown(scope, until)) for scope, until in ends.items()))
    rig.call(progress.lift_cooldowns, after=at(24), until=at(48), now=at(1))
    assert rig.call(progress.cooldowns, now=at(1)) == {"soon": at(23), "later": at(72)}
