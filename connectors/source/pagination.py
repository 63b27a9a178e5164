"""One walk over a partition's pages: lazy, and never in a circle (API 8)."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from hashlib import blake2b

from connectors.source.endpoints import Response
from connectors.source.errors import trouble


class CursorTrail:
    """The cursors one walk has followed, as 16-byte digests: a cursor may be a kilobyte, a walk long."""

    def __init__(self, start: str | None) -> None:
        self._seen: set[bytes] = set()
        if start is not None:
            self._seen.add(_digest(start))

    def follow(self, response: Response) -> str | None:
        """Return the page's next cursor; raises ApiError `cursor_loop` when the walk has had it before."""
        cursor = response.page.next_cursor
        if cursor is None:
            return None
        digest = _digest(cursor)
        if digest in self._seen:
            raise trouble(
                response.operation,
                "cursor_loop",
                f"after {len(self._seen)} cursors the next one is one of them: the walk would never end",
                correlation_id=response.correlation_id,
            )
        self._seen.add(digest)
        return cursor


async def walk(ask_page: Callable[[str | None], Awaitable[Response]], cursor: str | None) -> AsyncGenerator[Response]:
    """Walk from `cursor` (None: from the first page) to the end, asking for a page only when it is wanted.

    Raises what `ask_page` raises, and ApiError `cursor_loop` instead of handing on a page that leads back:
    landed, it would become the checkpoint of a walk without an end.
    """
    trail = CursorTrail(cursor)
    while True:
        response = await ask_page(cursor)
        cursor = trail.follow(response)
        yield response
        # API 8 rule 3: null ends the walk; an empty page does not.
        if cursor is None:
            return


def _digest(cursor: str) -> bytes:
    return blake2b(cursor.encode(), digest_size=16).digest()
