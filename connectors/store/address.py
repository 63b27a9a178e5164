"""The address of a shared store. Settings are read by every command, so this imports nothing of the stores."""

from pathlib import Path
from urllib.parse import urlsplit

CLOUDS = ("s3", "gs", "az")


def check_url(url: str) -> str:
    """Return the address of a store as it is used everywhere: a cloud's, or an absolute path. Raises ValueError."""
    scheme = urlsplit(url).scheme
    if scheme in CLOUDS:
        if not urlsplit(url).netloc or "@" in urlsplit(url).netloc:
            message = f"it names no bucket; write one such as {scheme}://bucket/gramhouse"
            raise ValueError(message)
        return url.rstrip("/")
    if "://" in url:
        known = ", ".join(f"{cloud}://" for cloud in CLOUDS)
        message = f"{scheme}:// is not supported; write a folder, or {known} and a bucket"
        raise ValueError(message)
    return str(Path(url).absolute())


def is_cloud(url: str) -> bool:
    """Say whether an address is a cloud's, and no path."""
    return urlsplit(url).scheme in CLOUDS and "://" in url
