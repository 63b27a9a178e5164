"""A small world in two states, and the pages by which the API would list it."""

from collections.abc import Mapping, Sequence
from typing import Any

from models.partition import SURFACES
from tests.flows.fake_api import uuid

Item = dict[str, Any]
Where = tuple[str, str]
World = Mapping[Where, Sequence[Sequence[Item]]]

CATALOGUE: Where = ("", "")
ANN, BEA, CYD, DAN = map(uuid, range(1, 5))
POSTS: Where = (ANN, "posts")
PAGES = 3


def account(number: int, name: str, status: str = "active") -> Item:
    return {"id": uuid(number), "ig_username": name, "public_id": f"p{number:012d}", "status": status}


def post(name: str, caption: str = "as it was") -> Item:
    return {"id": name, "caption": caption, "timestamp": "2026-02-01T12:00:00+0000", "owner": {"name": "é\U0001f600"}}


# Of Ann's posts one is new by now, one says something else and one is gone; Dan is gone, and Bea has another name.
BEFORE: World = {
    CATALOGUE: [
        [account(1, "ann")],
        [account(2, "bea")],
        [account(3, "cyd", "token_expired"), account(4, "dan", "token_expired")],
    ],
    POSTS: [[post("p1"), post("p2")], [post("p3"), post("p4")], [post("p5"), post("p6")]],
    (ANN, "stories"): [[post("s1")]],
    (BEA, "posts"): [[post("q1"), post("q2")]],
    (BEA, "stories"): [[]],
}
NOW: World = {
    CATALOGUE: [[account(1, "ann")], [account(2, "bea.b")], [account(3, "cyd", "token_expired")]],
    POSTS: [[post("p7"), post("p1")], [post("p2", "as it is"), post("p3")], [post("p4"), post("p5")]],
    (ANN, "stories"): [[post("s1")]],
    (BEA, "posts"): [[post("q1"), post("q2", "as it is")]],
    (BEA, "stories"): [[]],
}


def is_due(where: Where) -> bool:
    """Whether a run owes this partition a scan; of an expired token it owes none."""
    return where[0] not in (CYD, DAN)


def partitions() -> set[Where]:
    """Everything a run over this world owes an outcome."""
    return {CATALOGUE, *((owner, surface) for owner in (ANN, BEA, CYD) for surface in SURFACES)}


def listed(world: World) -> dict[str, Item]:
    return {item["id"]: item for page in world[CATALOGUE] for item in page}


def shown(world: World) -> dict[tuple[str, str, str], Item]:
    return {
        (*where, item["id"]): item
        for where, pages in world.items()
        if where != CATALOGUE
        for page in pages
        for item in page
    }
