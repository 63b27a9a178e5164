"""An item of the media list on one day, and its record. The API does not document its shape (API 2)."""

from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from typing import Any, NamedTuple

Document = dict[str, Any]

DAY = 86_400
SITE = "https://photos.example"


class Child(NamedTuple):
    """One image or video of a carousel."""

    id: int
    media_type: str


class Item(NamedTuple):
    """A post or a story on one day.

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


def item_id(chance: int) -> int:
    """Return the id for a random number: an integer of 17 digits; the next ones are for the item's children."""
    return 10**16 + chance % (1 << 53)


def iso(seconds: int) -> str:
    """Return epoch seconds as text such as ``2017-08-31T18:10:00``, in UTC without an offset."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


def shortcode(item_id: int) -> str:
    """Return the eleven characters that identify an item in its address on the social network."""
    return urlsafe_b64encode(item_id.to_bytes(8))[:11].decode()


def signed(item_id: int, media_type: str, day: int) -> str:
    """Return the URL of a file, with a signature that differs each day."""
    suffix = "mp4" if media_type == "VIDEO" else "jpg"
    return f"https://cdn.example/v/t51/{item_id}_n.{suffix}?_nc_ht=cdn.example&oh=00_{day:016x}"


def graph(item: Item, username: str, owner: int, day: int) -> Document:
    """Return an item with the names of the Instagram Graph API; missing values are left out.

    ``owner`` is the account's number on the social network.
    """
    code = shortcode(item.id)
    children = [
        {"id": str(child.id), "media_type": child.media_type, "media_url": signed(child.id, child.media_type, day)}
        for child in item.children
    ]
    record = {
        "id": str(item.id),
        "caption": item.caption,
        "media_type": item.media_type,
        "media_product_type": item.product_type,
        "media_url": signed(item.id, item.media_type, day),
        "thumbnail_url": signed(item.id + 1, "IMAGE", day) if item.media_type == "VIDEO" else None,
        "permalink": f"{SITE}/p/{code}/",
        "shortcode": code,
        "timestamp": f"{iso(item.published)}+0000",
        "username": username,
        "owner": {"id": str(owner)},
        "like_count": item.likes,
        "comments_count": item.comments,
        "is_comment_enabled": item.comments_open,
        "children": {"data": children} if children else None,
    }
    return {name: value for name, value in record.items() if value is not None}
