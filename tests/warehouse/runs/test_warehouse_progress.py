from connectors.warehouse.runs import progress
from models.page_commit import PageCommit, ScopeCooldown
from models.partition import CATALOGUE, media
from tests.warehouse.rig import ANNA, BEN, POSTS, STORIES, T0, Rig, Scan, account, at


def test_the_last_checkpoint_of_each_partition_is_stored(rig: Rig) -> None:
    posts, stories, ben = Scan(POSTS, "p", T0), Scan(STORIES, "s", T0), Scan(media(BEN, "posts"), "b", T0)
    catalogue = Scan(CATALOGUE, "c", T0)
    rig.land(*(scan.page([{"id": "1"}], at(1)) for scan in (posts, stories, ben, catalogue)))
    rig.land(posts.page([{"id": "2"}, {"id": "3"}], at(2)), stories.page([], at(2), last=True), ben.abandon(at(2)))
    rig.merge()
    expected = {POSTS: posts.checkpoint, STORIES: stories.checkpoint, ben.partition: ben.checkpoint}
    for _ in range(2):
        with rig.connection.begin():
            found = progress.checkpoints(rig.connection, [ANNA, BEN, "nobody"])
            assert found == expected
            assert progress.checkpoints(rig.connection, [BEN]) == {ben.partition: ben.checkpoint}
            assert progress.checkpoints(rig.connection, []) == {}
            assert progress.checkpoints(rig.connection, [""]) == {CATALOGUE: catalogue.checkpoint}
        rig.merge()
        assert rig.value("SELECT count(*) FROM ops.checkpoints") == 4
    rig.land(posts.page([], at(3), last=True))
    rig.merge()
    with rig.connection.begin():
        assert progress.checkpoints(rig.connection, [ANNA])[POSTS] == posts.checkpoint


def test_only_active_cooldowns_are_read_and_the_longest_counts(rig: Rig) -> None:
    waits: dict[str, list[float]] = {"catalogue": [2, 5, 3], "anna": [1], "ben": [0.5, 4]}
    rig.record(*(PageCommit(cooldown=ScopeCooldown(scope, at(h))) for scope, hours in waits.items() for h in hours))
    with rig.connection.begin():
        assert progress.cooldowns(rig.connection, now=at(1)) == {"catalogue": at(5), "ben": at(4)}
        assert progress.cooldowns(rig.connection, now=at(5)) == {}


def test_only_the_cooldowns_that_a_person_saw_are_lifted(rig: Rig) -> None:
    ends = {"soon": at(23), "late": at(48), "later": at(72)}
    rig.record(*(PageCommit(cooldown=ScopeCooldown(scope, until)) for scope, until in ends.items()))
    with rig.connection.begin():
        progress.lift_cooldowns(rig.connection, after=at(24), until=at(48), now=at(1))
        assert progress.cooldowns(rig.connection, now=at(1)) == {"soon": at(23), "later": at(72)}


def test_the_accounts_of_one_scan_are_listed_with_their_status(rig: Rig) -> None:
    rig.catalogue("old", 0, [account("z"), account(ANNA)])
    scan = Scan(CATALOGUE, "new", at(24))
    rig.land(scan.page([account(BEN, status="token_expired"), account(ANNA)], at(24)))
    rig.merge()
    with rig.connection.begin():
        assert progress.listed(rig.connection, "new") == [
            (ANNA, "active", None, None),
            (BEN, "token_expired", None, None),
        ]
        assert progress.listed(rig.connection, "old") == [("z", "active", None, None)]
        assert progress.listed(rig.connection, "none") == []
