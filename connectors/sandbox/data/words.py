"""The words of usernames and captions, and captions composed of them; they do not depend on the seed."""

FIRST = (
    "amber", "atlas", "autumn", "basil", "birch", "cedar", "clara", "cobalt", "coral", "daily",
    "dara", "delta", "elif", "ember", "fern", "frida", "gentle", "golden", "harbor", "hazel",
    "ines", "indigo", "ivy", "jonas", "juniper", "kai", "late", "lena", "linen", "little",
    "luca", "lunar", "maple", "marta", "misty", "mateo", "nadia", "noor", "north", "oak",
    "olive", "opal", "paper", "pepper", "quiet", "rio", "rosa", "saffron", "salt", "sana",
    "slow", "sofia", "stone", "sunday", "tilda", "velvet", "wild", "willow", "yuki", "zoe",
)  # fmt: skip
SECOND = (
    "archive", "atelier", "bakes", "books", "brews", "bikes", "cabin", "canvas", "ceramics", "climbs",
    "coffee", "cooks", "crafts", "diaries", "draws", "explores", "films", "fits", "florals", "foods",
    "frames", "garden", "goods", "grows", "hikes", "home", "journal", "kitchen", "knits", "lens",
    "letters", "makes", "market", "motion", "notes", "outdoors", "paints", "pantry", "photo", "plants",
    "plates", "pottery", "prints", "records", "rides", "roams", "runs", "sails", "shop", "sketches",
    "stories", "studio", "surf", "table", "teas", "threads", "trails", "travels", "woodwork", "yoga",
)  # fmt: skip
# In order: plain names first, so that unusual ones occur only in larger catalogues.
USERNAME_STYLES = (
    "{first}.{second}", "{first}_{second}", "{first}{second}", "the.{first}.{second}",
    "{first}.{second}_", "_{first}{second}", "{first}.and.{second}", "{second}.by.{first}",
)  # fmt: skip

OPENINGS = (
    "Sunday bread, still warm 🍞",
    "First light on the ridge. Worth the 4 a.m. alarm.",
    "New in the studio: a small run of stoneware cups.",
    "Coffee first, then everything else ☕️",
    "Three days, two tents, one very wet map.",
    "Café con leche y una tarde sin planes",
    "Crème brûlée, attempt no. 3: finally that crack!",
    "Golden hour does all the work, honestly",
    "Swipe for the before ➡️",
    "The shop opens at 10. Bring a friend!",
    "Último dia de verão 🌊",
    'My grandmother called this "soup for thinking".',
    "Rain on the roof, book in hand 📖",
    "Thank you for 10k! You are the kindest people 💛",
    "Minus twelve degrees and not a single regret ❄️",
    "New recipe: lemon & thyme shortbread",
    "İstanbul'da bir sabah ☀️",
    "朝の散歩 🌸",
)
CLOSINGS = (
    "", "", "", " What would you have picked?", " Save this for your next trip 📌", " More tomorrow.",
    " Made with patience & butter <3", " Where should we go next? 👇", " Orders close Friday, 18:00.",
    " PS: yes, the dog got a biscuit.", " Merci à tous ❤️", "\nSwipe to the end for the recipe.",
    " ¿Quién se apunta?",
)  # fmt: skip
TAGS = (
    "", "", "#slowliving", "#handmade #ceramics", "#homebaking", "#trailrunning #mountains",
    "#goldenhour", "#plantsofinstagram 🌿", "#35mm #filmisnotdead", "#foodie #yum", "#ocean #surf",
    "#studiolife", "#weekendvibes", "#travelgram", "#çokgüzel", "#shoplocal",
)  # fmt: skip
EDITS = (
    "EDIT: sold out, thank you!", "Edit: typo, I can bake but not spell 🙈", "Update: we have a winner 🎉",
    "(edited: now with the right link)",
)  # fmt: skip
STORY_CAPTIONS = (
    None, None, None, "good morning ☀️", "poll: tea or coffee?", "new post up!", "24 h only ⏳", "live soon",
)  # fmt: skip
_SILENT_IN = 25


def post_caption(words: int, edit: int | None) -> str | None:
    """Return a post's caption; None for the few posts without one.

    ``words`` selects the caption, ``edit`` the text that was added to it later (None: nothing was added).
    """
    more = "" if edit is None else f"\n{EDITS[edit % len(EDITS)]}"
    if words % _SILENT_IN == 0:
        return more[1:] or None
    opening = OPENINGS[(words >> 8) % len(OPENINGS)]
    closing = CLOSINGS[(words >> 24) % len(CLOSINGS)]
    tags = TAGS[(words >> 40) % len(TAGS)]
    tags = f"\n\n{tags}" if tags else ""
    stop = "." if closing and opening[-1].isalnum() else ""
    return f"{opening}{stop}{closing}{tags}{more}"


def story_caption(words: int) -> str | None:
    """Return a story's caption; None for stories without one."""
    return STORY_CAPTIONS[words % len(STORY_CAPTIONS)]


def username(position: int) -> str:
    """Return a unique username of 1 to 30 characters for a position."""
    pairs = len(FIRST) * len(SECOND)
    lap, n = divmod(position, pairs)
    # The step is coprime to the number of pairs, so each pair is used once per lap.
    first, second = divmod((n * 1847 + 611) % pairs, len(SECOND))
    again, style = divmod(lap, len(USERNAME_STYLES))
    name = USERNAME_STYLES[style].format(first=FIRST[first], second=SECOND[second])
    return f"{name}{again + 1}" if again else name
