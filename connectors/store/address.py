"""Checks the address of a shared store. Every command reads settings, so this module does not import the stores."""

from pathlib import Path
from urllib.parse import urlsplit

CLOUDS = ("s3", "gs", "az")


def check_url(url: str) -> str:
    """Return the normalized address of a store: a bucket's URL or an absolute path. Raises ValueError."""
    scheme = urlsplit(url).scheme
    if scheme in CLOUDS:
        if not urlsplit(url).netloc or "@" in urlsplit(url).netloc:
            message = f"it names no bucket; write one such as {scheme}://bucket/gramhouse"
            raise ValueError(message)
        return url.rstrip("/")
    if "://" in url:
        known = ", ".join(f"{cloud}://" for cloud in CLOUDS)
        message = f"{scheme}:// is not supported; write a path, or {known} and a bucket"
        raise ValueError(message)
    return str(Path(url).absolute())


def is_cloud(url: str) -> bool:
    """Return whether an address is a bucket's URL, not a path."""
    return urlsplit(url).scheme in CLOUDS and "://" in url
