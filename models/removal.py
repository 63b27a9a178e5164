"""When what a walk did not see counts as gone."""

# A walk that misses more than this part of an account's known posts marks none of them until the next complete
# walk misses them too: a listing that breaks off early looks just like a mass deletion.
POSTS_BRAKE = 0.5

# Stories live for a day; one that vanishes after that has expired, one that vanishes sooner was removed.
STORY_LIFE_HOURS = 24
