"""The kind of a media item (image, video, carousel or reel), from the words with which its payload names its type.

The API does not publish which words there are (API 2): a word that is not here says nothing.
"""

from collections.abc import Mapping, Sequence

# In the order in which they are decided: a reel is a video too, and a carousel has images and videos. Words in lower
# case and without other characters than letters.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "reel": ("reel", "reels", "clip", "clips"),
    "carousel": ("carousel", "carouselalbum", "carouselcontainer", "album", "sidecar", "graphsidecar"),
    "video": ("video", "graphvideo", "igtv"),
    "image": ("image", "graphimage", "photo", "picture"),
}

# Fields that tell reels from other videos, or the type where no candidate of `media_type` does.
_PATHS = frozenset(
    {
        "/media_product_type",
        "/mediaProductType",
        "/product_type",
        "/productType",
        "/media/product_type",
        "/media/productType",
        "/__typename",
    }
)


def names_kind(path: str) -> bool:
    """Return whether the field at this path may name an item's kind."""
    return path in _PATHS


def kind_of(columns: Sequence[str]) -> str:
    """Return the SQL expression for an item's kind, from expressions for the words that name it; NULL if none does."""
    said = [f"regexp_replace(lower({column}::VARCHAR), '[^a-z]', '', 'g')" for column in columns]
    # Not IN: DuckDB joins each row to a long list of values, also for a query that does not read the kind.
    cases = (
        f"WHEN {' OR '.join(f'list_contains({[*names]}, {word})' for word in said)} THEN '{which}'"
        for which, names in _WORDS.items()
    )
    return f"CASE {' '.join(cases)} END"
