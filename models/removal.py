"""Thresholds that decide when items and accounts missed by a scan count as removed."""

# A scan that misses more than this part of an account's known posts, or of its stories that have not expired, marks
# none of them until another complete scan misses them too: a truncated listing looks just like a mass deletion.
MASS_REMOVAL_THRESHOLD = 0.5

# How long after the end of the first scan the other one must begin: the cause of a truncated listing may last a while.
CONFIRM_AFTER_HOURS = 1

# A story that is missing after this time has expired; one that is missing earlier was removed.
STORY_LIFE_HOURS = 24

# A complete catalogue that misses more than this part of the known accounts (and more than one), or all of them,
# removes none of them until a person or a later catalogue confirms it: a key with fewer grants looks just the same.
ACCOUNTS_LIMIT = 0.1

# The confirming scan of the catalogue must begin at least this many hours after the beginning of the one that first
# missed the accounts.
ACCOUNTS_CONFIRM_AFTER_HOURS = 12
