"""Three common shapes: the names of the Graph API, the same in camelCase, and a flat one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.sandbox.data.calendar import iso
from connectors.sandbox.data.links import SITE, SUFFIX, signed

if TYPE_CHECKING:
    from connectors.sandbox.data.posts import Item

_FLAT_TYPE = {"IMAGE": "1", "VIDEO": "2", "CAROUSEL_ALBUM": "8"}


def graph(item: Item, username: str, owner: int, day: int) -> str:
    """Render an item with the names of the Instagram Graph API; missing values are left out."""
    caption = "" if item.caption is None else f'"caption":"{item.caption}",'
    thumbnail = f'"thumbnail_url":"{signed(item.id + 1, "jpg", day)}",' if item.media_type == "VIDEO" else ""
    children = ""
    if item.children:
        inner = ",".join(
            f'{{"id":"{child.id}","media_type":"{child.media_type}",'
            f'"media_url":"{signed(child.id, SUFFIX[child.media_type], day)}"}}'
            for child in item.children
        )
        children = f',"children":{{"data":[{inner}]}}'
    return (
        f'{{"id":"{item.id}",{caption}"media_type":"{item.media_type}",'
        f'"media_product_type":"{item.product_type}",'
        f'"media_url":"{signed(item.id, SUFFIX[item.media_type], day)}",{thumbnail}'
        f'"permalink":"{SITE}/p/{item.shortcode}/","shortcode":"{item.shortcode}",'
        f'"timestamp":"{iso(item.published)}+0000","username":"{username}",'
        f'"owner":{{"id":"{owner}"}},"like_count":{item.likes},"comments_count":{item.comments},'
        f'"is_comment_enabled":{"true" if item.comments_open else "false"}{children}}}'
    )


def camel(item: Item, username: str, owner: int, day: int) -> str:
    """Render an item with camelCase names and nested metrics; missing values are null or empty."""
    caption = "null" if item.caption is None else f'"{item.caption}"'
    children = ",".join(
        f'{{"id":"{child.id}","mediaType":"{child.media_type}",'
        f'"mediaUrl":"{signed(child.id, SUFFIX[child.media_type], day)}"}}'
        for child in item.children
    )
    return (
        f'{{"id":"{item.id}","caption":{caption},"mediaType":"{item.media_type}",'
        f'"mediaProductType":"{item.product_type}",'
        f'"mediaUrl":"{signed(item.id, SUFFIX[item.media_type], day)}",'
        f'"permalink":"{SITE}/p/{item.shortcode}/","publishedAt":"{iso(item.published)}Z",'
        f'"metrics":{{"likes":{item.likes},"comments":{item.comments},"saves":{item.saves},'
        f'"reach":{item.reach}}},"owner":{{"id":"{owner}","username":"{username}"}},'
        f'"children":[{children}]}}'
    )


def flat(item: Item, username: str, owner: int, day: int) -> str:
    """Render an item with epoch seconds, counts as text, a plain ``url``, and the media type as a number in text."""
    caption = item.caption or ""
    return (
        f'{{"id":"{item.id}","caption":"{caption}","media_type":"{_FLAT_TYPE[item.media_type]}",'
        f'"product_type":"{item.product_type.lower()}","code":"{item.shortcode}",'
        f'"url":"{signed(item.id, SUFFIX[item.media_type], day)}",'
        f'"permalink":"{SITE}/p/{item.shortcode}/","taken_at":{item.published},'
        f'"like_count":"{item.likes}","comment_count":"{item.comments}",'
        f'"user":{{"pk":{owner},"username":"{username}"}}}}'
    )
