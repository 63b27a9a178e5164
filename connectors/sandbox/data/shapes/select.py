"""The shapes of media items. The API does not document one (API 2), so a client must accept all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from connectors.sandbox.data.shapes.drift import drift
from connectors.sandbox.data.shapes.known import camel, flat, graph
from connectors.sandbox.data.shapes.nested import nested

if TYPE_CHECKING:
    from connectors.sandbox.data.posts import Item


class Shape(Protocol):
    """Renders an item of an account on one day as a JSON object."""

    def __call__(self, item: Item, username: str, owner: int, day: int) -> str:
        """Return the JSON text. ``owner`` is the account's number on the social network."""
        ...


_BY_NAME: dict[str, tuple[Shape, ...]] = {
    "graph": (graph,),
    "camel": (camel,),
    "flat": (flat,),
    "mixed": (graph, camel, flat),
    "nested": (nested,),
    "drift": (drift,),
}


def shape_of(name: str, position: int) -> Shape:
    """Return the shape that the account at a position uses with this setting."""
    shapes = _BY_NAME[name]
    return shapes[position % len(shapes)]
