"""Thresholds that decide when items and accounts missed by scans count as removed."""

# The time between the end of the scan that first missed an item and the beginning of the one that confirms its removal:
# the cause of a truncated listing may last a while.
CONFIRM_AFTER_HOURS = 1

# The same for accounts: a key that lost its grants must not remove them before somebody has noticed.
ACCOUNTS_CONFIRM_AFTER_HOURS = 12


# If the catalogue misses more than this part of the known accounts, a person should look: a key with fewer grants looks
# the same.
ACCOUNTS_LIMIT = 0.1
