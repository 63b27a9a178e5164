"""The built-in mapping: names of the Instagram Graph API first, then their camelCase and nested variants."""

from models.schema.mapping import ColumnMapping, Mapping, Reading


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _column(text: str) -> ColumnMapping:
    """Return the column with this name, reading and paths."""
    name, reading, *paths = text.split()
    return ColumnMapping(name, Reading(reading), tuple(paths))


_MEDIA_ID = _words("/id /media_id /mediaId /pk /ig_id /igId")

_COLUMNS = (
    _column("media_type text /media_type /mediaType /type /media/type /kind"),
    _column("caption text /caption/text /caption /captionText /caption_text /text"),
    _column("permalink text /permalink /permalinkUrl /permalink_url /link"),
    _column("media_url text /media_url /mediaUrl /media/url /url /image_url /imageUrl /video_url /videoUrl"),
    _column(
        "published_at timestamp /timestamp /published_at /publishedAt /taken_at /takenAt /created_time /createdTime"
        " /created_at /createdAt"
    ),
    _column(
        "like_count count /like_count /likeCount /likes_count /likesCount /metrics/likes /stats/likes"
        " /statistics/likes /counts/likes /likes/count /likes"
    ),
    _column(
        "comments_count count /comments_count /commentsCount /comment_count /commentCount /metrics/comments"
        " /stats/comments /statistics/comments /counts/comments /comments/count /comments"
    ),
)

# A signed URL has new signature parameters in every response, although the picture is the same. One of these shows
# that a URL is signed; upper and lower case are the same.
_VOLATILE_PARAMETERS = _words(
    """
    _nc_[a-z0-9_]+ ccb edm efg ig_cache_key oe oh stp x-(?:amz|goog)-[a-z]+ x-(?:expires|signature) AWSAccessKeyId
    GoogleAccessId Expires Signature Key-Pair-Id se sig token access_token auth_key hdn[a-z]+ hmac sign
    """
)

_CHILDREN = _words(
    """
    /children/data /children/items /children /carousel_media /carouselMedia /carousel/items /carousel/children
    /carousel /child_media /childMedia
    """
)

_MEDIA_TYPE, _MEDIA_URL = (
    next(column for column in _COLUMNS if column.column == name) for name in ("media_type", "media_url")
)

_CHILD_COLUMNS = (ColumnMapping("child_id", Reading.TEXT, _MEDIA_ID), _MEDIA_TYPE, _MEDIA_URL)

# Keys that end in _count or Count are counts without being listed here.
_COUNT_WORDS = _words(
    """
    count likes comments shares saves saved bookmarks views plays reach impressions reposts replies reactions
    interactions total_interactions engagement exits taps_forward taps_back swipes_forward follows profile_visits
    profile_activity clicks
    """
)

BUILT_IN = Mapping(_MEDIA_ID, _COLUMNS, _CHILDREN, _CHILD_COLUMNS, _COUNT_WORDS, _VOLATILE_PARAMETERS)
