"""Renders pages from the catalogue to bytes, and caches them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from connectors.sandbox.data.page_cache import PageCache

if TYPE_CHECKING:
    from connectors.sandbox.data.catalogue import Catalogue, Grant
    from connectors.sandbox.data.population import Account
    from connectors.sandbox.http.cursors import Cursors
    from connectors.sandbox.http.exchange import Resource
    from connectors.sandbox.settings import SandboxSettings

# An additional field; the API does not restrict the fields of a media page (API 2).
_EXTRAS = ',"surface_info":{"surface":"%s","generated_by":"sandbox","day":%d}'


class Wanted(NamedTuple):
    """The requested page without its start: resource and account, grant, number of items, day."""

    resource: Resource
    account: Account | None
    grant: Grant
    limit: int
    day: int


class Pages:
    """Renders pages of either operation."""

    def __init__(self, catalogue: Catalogue, cursors: Cursors, settings: SandboxSettings) -> None:
        self._catalogue = catalogue
        self.cursors = cursors
        self._extras = settings.page_extras
        self.cache = PageCache(settings.cache_bytes)

    def page(self, wanted: Wanted, anchor: int | None) -> bytes:
        """Return the page that starts after an anchor; None: the first page."""
        grant = wanted.grant if wanted.account is None else None
        key = (wanted.resource, wanted.day, anchor, wanted.limit, self.cursors.epoch, grant)
        known = self.cache.get(key)
        if known is None:
            known = self._render(wanted, anchor)
            self.cache.put(key, known)
        return known

    def first_cursor(self, wanted: Wanted) -> str | None:
        """Return the next cursor of the first page."""
        anchor = self._found(wanted, None)[1]
        return None if anchor is None else self.cursors.issue(wanted.resource, anchor)

    def _render(self, wanted: Wanted, anchor: int | None) -> bytes:
        items, following = self._found(wanted, anchor)
        cursor = "null" if following is None else f'"{self.cursors.issue(wanted.resource, following)}"'
        extras = _EXTRAS % (wanted.resource.surface, wanted.day) if self._extras and wanted.account else ""
        return f'{{"items":[{",".join(items)}],"next_cursor":{cursor}{extras}}}'.encode()

    def _found(self, wanted: Wanted, anchor: int | None) -> tuple[list[str], int | None]:
        if wanted.account is None:
            return self._catalogue.account_page(wanted.day, wanted.grant, anchor, wanted.limit)
        surface = wanted.resource.surface or ""
        return self._catalogue.media_page(wanted.day, wanted.account, surface, anchor, wanted.limit)
