"""When what a scan did not see counts as gone."""

# A scan that misses more than this part of an account's known posts, or of its stories that have not expired, marks
# none of them until another complete scan misses them too: a listing that breaks off early looks just like a mass
# deletion.
MASS_REMOVAL_THRESHOLD = 0.5

# How much later than the first that other scan must begin: what breaks a listing off now may still do so in a minute.
CONFIRM_AFTER_HOURS = 1

# Stories live for a day; one that vanishes after that has expired, one that vanishes sooner was removed.
STORY_LIFE_HOURS = 24

# A complete catalogue that misses more than this part of the known accounts, and more than one, or all of them, removes
# none until a person or a later catalogue confirms it: a key with fewer grants looks just like a mass removal.
ACCOUNTS_LIMIT = 0.1

# The scan whose catalogue confirms it begins at least so many hours after the one that first missed the accounts.
ACCOUNTS_CONFIRM_AFTER_HOURS = 12
