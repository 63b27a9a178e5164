"""Cursors: opaque, authenticated, and bound to the resource they were issued for (API 8)."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from struct import Struct

from connectors.sandbox.contract import SURFACES
from connectors.sandbox.data.draw import Draw
from connectors.sandbox.http.replies import Resource

_FIELDS = Struct("<Bqq")
_SEAL = 11
# Not a multiple of 3, so that cursors have base64 padding, which clients must percent-encode.
_SIZE = _FIELDS.size + _SEAL
_LISTS = ("", *SURFACES)


class Cursors:
    """Issues and reads cursors."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def issue(self, resource: Resource, anchor: int) -> str:
        """Return the cursor that continues a resource after an anchor."""
        fields = _FIELDS.pack(_LISTS.index(resource.surface), resource.position, anchor)
        return urlsafe_b64encode(self._draw.tag(fields, _SEAL) + fields).decode()

    def read(self, text: str, resource: Resource) -> int | None:
        """Return the anchor of a cursor, or None if it is not valid for this resource."""
        try:
            sealed = urlsafe_b64decode(text)
        except ValueError:
            return None
        if len(sealed) != _SIZE:
            return None
        _, _, anchor = _FIELDS.unpack(sealed[_SEAL:])
        # The comparison also refuses other spellings, which base64 would ignore.
        return anchor if self.issue(resource, anchor) == text else None
