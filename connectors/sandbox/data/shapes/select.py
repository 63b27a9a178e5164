"""The shapes a media item may come in. The contract shows none (API 2), so a reader must take all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from connectors.sandbox.data.shapes.drift import drift
from connectors.sandbox.data.shapes.known import camel, flat, graph
from connectors.sandbox.data.shapes.nested import nested

if TYPE_CHECKING:
    from connectors.sandbox.data.posts import Item


class Shape(Protocol):
    """Renders one item, owned by an account, as a JSON object on one day."""

    def __call__(self, item: Item, username: str, owner: int, day: int) -> str:
        """Return the JSON text; ``owner`` is the social network's number of the account."""
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
    """Return the shape that the account at a position uses in a catalogue of this shape."""
    shapes = _BY_NAME[name]
    return shapes[position % len(shapes)]
