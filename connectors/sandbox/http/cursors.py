"""Cursors: opaque, authenticated, and bound to the resource they were issued for (API 8)."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from connectors.sandbox.contract import MAX_CURSOR, POSTS, STORIES
from connectors.sandbox.data.draw import Draw

if TYPE_CHECKING:
    from connectors.sandbox.http.exchange import Resource

_FIELDS = Struct("<BqqHI")
_SEAL = 11
# Not a multiple of 3, so that cursors have base64 padding, which clients must percent-encode.
_SIZE = _FIELDS.size + _SEAL
_SURFACES = {None: 0, POSTS: 1, STORIES: 2}
_NO_ANCHOR = -(1 << 63)


class Position(NamedTuple):
    """The content of a cursor: the anchor after which it continues, how often it was re-issued, and its epoch."""

    anchor: int | None
    hop: int
    epoch: int


class Cursors:
    """Issues and reads cursors.

    ``epoch`` starts at 0; increasing it (see ``forget``) invalidates all cursors issued before.
    """

    def __init__(self, seed: int) -> None:
        self._draw = Draw(seed)
        self.epoch = 0

    def forget(self) -> None:
        """Invalidate all cursors issued so far."""
        self.epoch += 1

    def issue(self, resource: Resource, anchor: int | None, hop: int = 0) -> str:
        """Return the cursor that continues a resource after an anchor; None: from the beginning."""
        fields = _FIELDS.pack(
            _SURFACES[resource.surface],
            -1 if resource.position is None else resource.position,
            _NO_ANCHOR if anchor is None else anchor,
            hop % 65_536,
            self.epoch,
        )
        return urlsafe_b64encode(self._draw.tag(fields, _SEAL) + fields).decode()

    def read(self, text: str, resource: Resource) -> Position | None:
        """Return the content of a cursor, or None if it is not valid for this resource."""
        if len(text) > MAX_CURSOR or not text.isascii():
            return None
        try:
            sealed = urlsafe_b64decode(text)
        except (Base64Error, ValueError):
            return None
        fields = sealed[_SEAL:]
        if len(sealed) != _SIZE or self._draw.tag(fields, _SEAL) != sealed[:_SEAL]:
            return None
        surface, position, anchor, hop, epoch = _FIELDS.unpack(fields)
        expected = (_SURFACES[resource.surface], -1 if resource.position is None else resource.position)
        if (surface, position) != expected or epoch < self.epoch or urlsafe_b64encode(sealed).decode() != text:
            return None
        return Position(None if anchor == _NO_ANCHOR else anchor, hop, epoch)
