"""An item of the media list on one day, and its JSON. The API does not document its shape (API 2)."""

from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from json.encoder import encode_basestring
from typing import NamedTuple

DAY = 86_400

_CDN = "https://cdn.example/v/t51"
SITE = "https://photos.example"
_MASK = (1 << 64) - 1
_FACTOR = 0x9E3779B97F4A7C15


class Child(NamedTuple):
    """One image or video of a carousel."""

    id: int
    media_type: str


class Item(NamedTuple):
    """A post or a story on one day. A tuple for speed, because each page needs fifty.

    ``sequence`` increases with time within one account and surface. ``published`` is in epoch seconds.
    """

    sequence: int
    id: int
    media_type: str
    product_type: str
    caption: str | None
    published: int
    likes: int
    comments: int
    comments_open: bool = True
    children: tuple[Child, ...] = ()


def iso(seconds: int) -> str:
    """Return epoch seconds as text such as ``2017-08-31T18:10:00``, in UTC without an offset."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


def shortcode(item_id: int) -> str:
    """Return the eleven characters that identify an item in its address on the social network."""
    return urlsafe_b64encode(item_id.to_bytes(8))[:11].decode()


def signed(item_id: int, media_type: str, day: int) -> str:
    """Return the URL of a file, with a signature that differs each day."""
    suffix = "mp4" if media_type == "VIDEO" else "jpg"
    return f"{_CDN}/{item_id}_n.{suffix}?_nc_ht=cdn.example&oh=00_{(day + 1) * _FACTOR & _MASK:016x}"


def graph(item: Item, username: str, owner: int, day: int) -> str:
    """Render an item with the names of the Instagram Graph API; missing values are left out.

    ``owner`` is the account's number on the social network.
    """
    caption = "" if item.caption is None else f'"caption":{encode_basestring(item.caption)},'
    code = shortcode(item.id)
    thumbnail = children = ""
    if item.media_type == "VIDEO":
        thumbnail = f'"thumbnail_url":"{signed(item.id + 1, "IMAGE", day)}",'
    if item.children:
        inner = [
            f'{{"id":"{child.id}","media_type":"{child.media_type}",'
            f'"media_url":"{signed(child.id, child.media_type, day)}"}}'
            for child in item.children
        ]
        children = f',"children":{{"data":[{",".join(inner)}]}}'
    return (
        f'{{"id":"{item.id}",{caption}"media_type":"{item.media_type}",'
        f'"media_product_type":"{item.product_type}","media_url":"{signed(item.id, item.media_type, day)}",{thumbnail}'
        f'"permalink":"{SITE}/p/{code}/","shortcode":"{code}","timestamp":"{iso(item.published)}+0000","username":"{username}",'
        f'"owner":{{"id":"{owner}"}},"like_count":{item.likes},"comments_count":{item.comments},'
        f'"is_comment_enabled":{"true" if item.comments_open else "false"}{children}}}'
    )
