"""URLs of items and their media files, generated from the items' ids."""

from __future__ import annotations

CDN = "https://cdn.example/v/t51"
SITE = "https://photos.example"
SUFFIX = {"IMAGE": "jpg", "VIDEO": "mp4", "CAROUSEL_ALBUM": "jpg"}
_MASK = (1 << 64) - 1
_EXPIRES = 0x68000000


def signed(item_id: int, suffix: str, day: int) -> str:
    """Return the URL of a file, with a signature that differs each day."""
    signature = (item_id * 0x9E3779B97F4A7C15 ^ (day + 1) * 0xC2B2AE3D27D4EB4F) & _MASK
    return f"{CDN}/{item_id}_n.{suffix}?_nc_ht=cdn.example&oh=00_{signature:016x}&oe={_EXPIRES + day * 0x15180:X}"
