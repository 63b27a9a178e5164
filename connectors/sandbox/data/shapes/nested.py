"""An uncommon shape: camelCase names, values in nested objects, lists of scalars and of objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.sandbox.data.calendar import iso
from connectors.sandbox.data.links import SITE, SUFFIX, signed

if TYPE_CHECKING:
    from connectors.sandbox.data.posts import Item

_PLACES = (
    '{"placeId":71,"placeName":"Alfama, Lisboa","geo":{"lat":38.7139,"lng":-9.1334},"address":{"countryCode":"PT"}}',
    '{"placeId":72,"placeName":"Karaköy","geo":{"lat":41.0256,"lng":28.9744},"address":{"countryCode":"TR"}}',
    '{"placeId":73,"placeName":"Nørrebro","geo":{"lat":55.6940,"lng":12.5443},"address":null}',
)
_HASHTAGS = ("[]", '["slowLiving"]', '["35mm","filmIsNotDead"]', '["ocean","surf","wetMap"]')
_PRODUCTS = ("Stoneware cup", 'The \\"big\\" tray', "Trail map, 3rd ed.", "Linen apron")


def _products(item: Item) -> str:
    return ",".join(
        f'{{"productId":"{item.id % 9_973 + n}","productName":"{_PRODUCTS[(item.id + n) % 4]}",'
        f'"price":{{"amount":{(item.id + 7 * n) % 400 / 4},"currencyCode":"EUR"}},'
        f'"isAvailable":{"true" if (item.id + n) % 3 else "false"},'
        f'"sizes":{"[]" if n % 2 else f"[{item.id % 40},{item.id % 40 + 2}]"},'
        f'"offers":[{{"shop":"{n}","until":null}}]}}'
        for n in range(item.id % 5 - 2)
    )


def nested(item: Item, username: str, owner: int, day: int) -> str:
    """Render an item with nested objects; missing values are null or empty."""
    caption = "null" if item.caption is None else f'"{item.caption}"'
    position = _PLACES[item.id % 3] if item.id % 4 == 0 else "null"
    children = ",".join(
        f'{{"mediaId":"{child.id}","mediaType":"{child.media_type}",'
        f'"mediaUrl":"{signed(child.id, SUFFIX[child.media_type], day)}",'
        f'"accessibility":{{"altText":"part {n}, of {child.media_type.lower()}"}}}}'
        for n, child in enumerate(item.children, 1)
    )
    return (
        f'{{"mediaId":"{item.id}",'
        f'"media":{{"type":"{item.media_type}","url":"{signed(item.id, SUFFIX[item.media_type], day)}",'
        f'"productType":"{item.product_type}","dimensions":{{"width":{1080},"height":{1080 + item.id % 3 * 135},'
        f'"aspectRatio":{(8 - item.id % 3) / 8}}}}},'
        f'"content":{{"captionText":{caption},"kind":"{item.product_type.lower()}","language":'
        f'{{"code":"{("en", "fr", "es")[item.id % 3]}","confidence":{1 if item.id % 8 == 0 else 0.5}}}}},'
        f'"links":{{"permalinkUrl":"{SITE}/p/{item.shortcode}/","shortCode":"{item.shortcode}"}},'
        f'"statistics":{{"likes":{item.likes},"comments":{item.comments}}},'
        f'"engagement":{{"saves":{item.saves},"views":{{"reelPlayCount":{item.reach // 3},"reach":{item.reach}}}}},'
        f'"author":{{"userId":{owner},"username":"{username}","flags":{{"isVerified":{"true" if owner % 2 else "false"}'
        f"}}}},"
        f'"when":{{"publishedAt":"{iso(item.published)}Z","localTime":"{iso(item.published)}"}},'
        f'"hashtags":{_HASHTAGS[item.id % 4]},"location":{position},"productTags":[{_products(item)}],'
        f'"settings":{{"commentsEnabled":{"true" if item.comments_open else "false"},"collaborators":[],'
        f'"experiments":{{}}}},"children":[{children}]}}'
    )
