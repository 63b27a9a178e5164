from connectors.warehouse.runs import progress
from models.page_commit import PageCommit, ScopeCooldown
from models.partition import CATALOGUE, media
from tests.warehouse.house import ANNA, BEN, POSTS, STORIES, T0, House, Scan, account, at


def test_the_last_checkpoint_of_each_partition_counts_before_and_after_a_merge(house: House) -> None:
    posts, stories, ben = Scan(POSTS, "p", T0), Scan(STORIES, "s", T0), Scan(media(BEN, "posts"), "b", T0)
    catalogue = Scan(CATALOGUE, "c", T0)
    house.land(*(scan.page([{"id": "1"}], at(1)) for scan in (posts, stories, ben, catalogue)))
    house.land(posts.page([{"id": "2"}, {"id": "3"}], at(2)), stories.page([], at(2), last=True), ben.abandon(at(2)))
    expected = {POSTS: posts.checkpoint, STORIES: stories.checkpoint, ben.partition: ben.checkpoint}
    for _ in range(3):
        with house.connection.begin():
            found = progress.checkpoints(house.connection, "media", [ANNA, BEN, "nobody"])
            assert found == expected
            assert progress.checkpoints(house.connection, "media", [BEN]) == {ben.partition: ben.checkpoint}
            assert progress.checkpoints(house.connection, "media", []) == {}
            assert progress.checkpoints(house.connection, "accounts", [""]) == {CATALOGUE: catalogue.checkpoint}
        house.merge()
        assert house.value("SELECT count(*) FROM ops.checkpoints") == 4
    house.land(posts.page([], at(3), last=True))
    with house.connection.begin():
        assert progress.checkpoints(house.connection, "media", [ANNA])[POSTS] == posts.checkpoint


def test_only_promises_still_to_be_kept_are_read_back_and_the_longest_counts(house: House) -> None:
    waits: dict[str, list[float]] = {"catalogue": [2, 5, 3], "anna": [1], "ben": [0.5, 4]}
    house.land(*(PageCommit(cooldown=ScopeCooldown(scope, at(h))) for scope, hours in waits.items() for h in hours))
    with house.connection.begin():
        assert progress.cooldowns(house.connection, now=at(1)) == {"catalogue": at(5), "ben": at(4)}
        assert progress.cooldowns(house.connection, now=at(5)) == {}


def test_the_accounts_of_one_scan_are_listed_with_their_status(house: House) -> None:
    house.catalogue("old", 0, [account("z"), account(ANNA)])
    scan = Scan(CATALOGUE, "new", at(24))
    house.land(scan.page([account(BEN, status="token_expired"), account(ANNA)], at(24)))
    house.merge()
    with house.connection.begin():
        assert progress.listed(house.connection, "new") == [
            (ANNA, "active", None, None),
            (BEN, "token_expired", None, None),
        ]
        assert progress.listed(house.connection, "old") == [("z", "active", None, None)]
        assert progress.listed(house.connection, "none") == []
