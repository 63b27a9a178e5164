"""The oracle: what users must see, computed from what was delivered and landed, without gramhouse's own code."""
