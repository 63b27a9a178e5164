"""A small data set in two states, as pages of the API."""

from collections.abc import Mapping, Sequence
from typing import Any

from models.feeds import SURFACES
from tests.api.listed import uuid

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


# Between the first and the last, one of Ann's posts is new, one has changed and one is removed; Dan is removed, and Bea
# is renamed. What is removed is missing in the second already, so that the next scans confirm it.
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
LEAVING: World = {
    **BEFORE,
    CATALOGUE: [*BEFORE[CATALOGUE][:2], [account(3, "cyd", "token_expired")]],
    POSTS: [*BEFORE[POSTS][:2], [post("p5")]],
}
NOW: World = {
    CATALOGUE: [[account(1, "ann")], [account(2, "bea.b")], [account(3, "cyd", "token_expired")]],
    POSTS: [[post("p7"), post("p1")], [post("p2", "as it is"), post("p3")], [post("p4"), post("p5")]],
    (ANN, "stories"): [[post("s1")]],
    (BEA, "posts"): [[post("q1"), post("q2", "as it is")]],
    (BEA, "stories"): [[]],
}


def partitions() -> set[Where]:
    """Return all partitions for which a run over this world must have an outcome."""
    return {CATALOGUE, *((owner, surface) for owner in (ANN, BEA, CYD) for surface in SURFACES)}


def listed_accounts(world: World) -> dict[str, Item]:
    return {item["id"]: item for page in world[CATALOGUE] for item in page}


def listed_media(world: World) -> dict[tuple[str, str, str], Item]:
    return {
        (*where, item["id"]): item
        for where, pages in world.items()
        if where != CATALOGUE
        for page in pages
        for item in page
    }
