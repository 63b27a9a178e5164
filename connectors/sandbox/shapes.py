"""The shapes a media item may come in. The contract shows none (API 2), so a reader must take all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from connectors.sandbox.nights import iso

if TYPE_CHECKING:
    from connectors.sandbox.posts import Item

_CDN = "https://cdn.example/v/t51"
_SITE = "https://photos.example"
_MASK = (1 << 64) - 1
_SUFFIX = {"IMAGE": "jpg", "VIDEO": "mp4", "CAROUSEL_ALBUM": "jpg"}
_FLAT_TYPE = {"IMAGE": "1", "VIDEO": "2", "CAROUSEL_ALBUM": "8"}
_EXPIRES = 0x68000000


class Shape(Protocol):
    """Renders one item, owned by an account, as a JSON object on one night."""

    def __call__(self, item: Item, username: str, owner: int, night: int) -> str:
        """Return the JSON text; ``owner`` is the social network's number of the account."""
        ...


def _url(item_id: int, suffix: str, night: int) -> str:
    # Signed links: the file is the same, the signature is another one every night.
    signature = (item_id * 0x9E3779B97F4A7C15 ^ (night + 1) * 0xC2B2AE3D27D4EB4F) & _MASK
    return f"{_CDN}/{item_id}_n.{suffix}?_nc_ht=cdn.example&oh=00_{signature:016x}&oe={_EXPIRES + night * 0x15180:X}"


def graph(item: Item, username: str, owner: int, night: int) -> str:
    """Render the names of the Instagram Graph API; what does not apply is left out."""
    caption = "" if item.caption is None else f'"caption":"{item.caption}",'
    thumbnail = f'"thumbnail_url":"{_url(item.id + 1, "jpg", night)}",' if item.media_type == "VIDEO" else ""
    children = ""
    if item.children:
        inner = ",".join(
            f'{{"id":"{child.id}","media_type":"{child.media_type}",'
            f'"media_url":"{_url(child.id, _SUFFIX[child.media_type], night)}"}}'
            for child in item.children
        )
        children = f',"children":{{"data":[{inner}]}}'
    return (
        f'{{"id":"{item.id}",{caption}"media_type":"{item.media_type}",'
        f'"media_product_type":"{item.product_type}",'
        f'"media_url":"{_url(item.id, _SUFFIX[item.media_type], night)}",{thumbnail}'
        f'"permalink":"{_SITE}/p/{item.shortcode}/","shortcode":"{item.shortcode}",'
        f'"timestamp":"{iso(item.published)}+0000","username":"{username}",'
        f'"owner":{{"id":"{owner}"}},"like_count":{item.likes},"comments_count":{item.comments},'
        f'"is_comment_enabled":{"true" if item.comments_open else "false"}{children}}}'
    )


def camel(item: Item, username: str, owner: int, night: int) -> str:
    """Render camelCase names with nested metrics; what does not apply is null or empty."""
    caption = "null" if item.caption is None else f'"{item.caption}"'
    children = ",".join(
        f'{{"id":"{child.id}","mediaType":"{child.media_type}",'
        f'"mediaUrl":"{_url(child.id, _SUFFIX[child.media_type], night)}"}}'
        for child in item.children
    )
    return (
        f'{{"id":"{item.id}","caption":{caption},"mediaType":"{item.media_type}",'
        f'"mediaProductType":"{item.product_type}",'
        f'"mediaUrl":"{_url(item.id, _SUFFIX[item.media_type], night)}",'
        f'"permalink":"{_SITE}/p/{item.shortcode}/","publishedAt":"{iso(item.published)}Z",'
        f'"metrics":{{"likes":{item.likes},"comments":{item.comments},"saves":{item.saves},'
        f'"reach":{item.reach}}},"owner":{{"id":"{owner}","username":"{username}"}},'
        f'"children":[{children}]}}'
    )


def flat(item: Item, username: str, owner: int, night: int) -> str:
    """Render epoch seconds, counts as text, a bare ``url`` and the type as a number in text."""
    caption = item.caption or ""
    return (
        f'{{"id":"{item.id}","caption":"{caption}","media_type":"{_FLAT_TYPE[item.media_type]}",'
        f'"product_type":"{item.product_type.lower()}","code":"{item.shortcode}",'
        f'"url":"{_url(item.id, _SUFFIX[item.media_type], night)}",'
        f'"permalink":"{_SITE}/p/{item.shortcode}/","taken_at":{item.published},'
        f'"like_count":"{item.likes}","comment_count":"{item.comments}",'
        f'"user":{{"pk":{owner},"username":"{username}"}}}}'
    )


_BY_NAME: dict[str, tuple[Shape, ...]] = {
    "graph": (graph,),
    "camel": (camel,),
    "flat": (flat,),
    "mixed": (graph, camel, flat),
}


def shape_of(name: str, place: int) -> Shape:
    """Return the shape that the account at a place uses in a catalogue of this shape."""
    shapes = _BY_NAME[name]
    return shapes[place % len(shapes)]
