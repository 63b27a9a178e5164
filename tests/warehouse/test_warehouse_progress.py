from connectors.warehouse import progress
from models.landing import Landing, ScopeHold
from models.partition import CATALOGUE, media
from tests.warehouse.house import ANNA, BEN, POSTS, STORIES, T0, House, Walk, account, at


def test_the_last_checkpoint_of_each_partition_counts_before_and_after_a_fold(house: House) -> None:
    posts, stories, ben = Walk(POSTS, "p", T0), Walk(STORIES, "s", T0), Walk(media(BEN, "posts"), "b", T0)
    catalogue = Walk(CATALOGUE, "c", T0)
    house.land(*(walk.page([{"id": "1"}], at(1)) for walk in (posts, stories, ben, catalogue)))
    house.land(posts.page([{"id": "2"}, {"id": "3"}], at(2)), stories.page([], at(2), last=True), ben.abandon(at(2)))
    expected = {POSTS: posts.checkpoint, STORIES: stories.checkpoint, ben.partition: ben.checkpoint}
    for _ in range(3):
        with house.connection.begin():
            found = progress.checkpoints(house.connection, "media", [ANNA, BEN, "nobody"])
            assert found == expected
            assert progress.checkpoints(house.connection, "media", [BEN]) == {ben.partition: ben.checkpoint}
            assert progress.checkpoints(house.connection, "media", []) == {}
            assert progress.checkpoints(house.connection, "accounts", [""]) == {CATALOGUE: catalogue.checkpoint}
        house.fold()
        assert house.value("SELECT count(*) FROM ops.checkpoints") == 4
    house.land(posts.page([], at(3), last=True))
    with house.connection.begin():
        assert progress.checkpoints(house.connection, "media", [ANNA])[POSTS] == posts.checkpoint


def test_only_promises_still_to_be_kept_are_read_back_and_the_longest_counts(house: House) -> None:
    waits: dict[str, list[float]] = {"catalogue": [2, 5, 3], "anna": [1], "ben": [0.5, 4]}
    house.land(*(Landing(hold=ScopeHold(scope, at(h))) for scope, hours in waits.items() for h in hours))
    with house.connection.begin():
        assert progress.holds(house.connection, now=at(1)) == {"catalogue": at(5), "ben": at(4)}
        assert progress.holds(house.connection, now=at(5)) == {}


def test_the_accounts_of_one_walk_are_listed_with_their_status(house: House) -> None:
    house.catalogue("old", 0, [account("z"), account(ANNA)])
    walk = Walk(CATALOGUE, "new", at(24))
    house.land(walk.page([account(BEN, status="token_expired"), account(ANNA)], at(24)))
    house.fold()
    with house.connection.begin():
        assert progress.listed(house.connection, "new") == [
            (ANNA, "active", None, None),
            (BEN, "token_expired", None, None),
        ]
        assert progress.listed(house.connection, "old") == [("z", "active", None, None)]
        assert progress.listed(house.connection, "none") == []
