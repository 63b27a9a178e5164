"""The words of which the sandbox generates usernames and captions; they do not depend on the seed."""

from __future__ import annotations

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
    "{first}.{second}_", "_{first}{second}", "{First}{Second}", "{second}.by.{first}",
)  # fmt: skip

OPENINGS = (
    "Sunday bread, still warm 🍞",
    "First light on the ridge. Worth the 4 a.m. alarm.",
    "New in the studio: a small run of stoneware cups.",
    "Coffee first, then everything else ☕️",
    "Three days, two tents, one very wet map.",
    "A slow morning at the market 🥬🍅🌽",
    "Work in progress, please don't mind the dust",
    "We said “one more lap” about six laps ago.",
    "Café con leche y una tarde sin planes",
    "Crème brûlée, attempt no. 3: finally that crack!",
    "Guess who learned to swim today 🐶💦",
    "Golden hour does all the work, honestly",
    "Swipe for the before ➡️",
    "The shop opens at 10. Bring a friend!",
    "Último dia de verão 🌊",
    'My grandmother called this "soup for thinking".',
    "Found this corner by accident, stayed for an hour.",
    "Fresh prints are up, link in bio",
    "Rain on the roof, book in hand 📖",
    "Frühling im Garten: alles blüht 🌷",
    "Trail notes:\n- 14 km\n- 820 m up\n- one fox",
    "Thank you for 10k! You are the kindest people 💛",
    "Minus twelve degrees and not a single regret ❄️",
    "Été à la mer, encore et toujours",
    "Tag someone who would eat the whole tray",
    "New recipe: lemon & thyme shortbread",
    "İstanbul'da bir sabah ☀️",
    "Behind the scenes of yesterday's shoot 🎬",
    "That's it. That's the post.",
    "Repotting day 🪴 wish me luck",
    "朝の散歩 🌸",
    "Señor Gato approves of the new sofa 🐈",
    "Old film, expired in 1998, still magic 🎞️",
    "5 things I wish I'd known before my first marathon 👇",
    "Small batch, big smile 😊",
    "Sunset report: 10/10, would watch again",
    "Hand-stitched, one evening at a time.",
    "Weekend plans: none. Perfect.",
    "Le marché ce matin, des pêches partout 🍑",
    "Back on the board after two months 🏄‍♀️",
)
CLOSINGS = (
    "",
    "",
    "",
    "What would you have picked?",
    "Full story on the blog.",
    "Save this for your next trip 📌",
    "More tomorrow.",
    "Made with patience & butter <3",
    "Where should we go next? 👇",
    "Photo by my little sister 📸",
    "Orders close Friday, 18:00.",
    "No filter, no rush.",
    "PS: yes, the dog got a biscuit.",
    "Merci à tous ❤️",
    "\nSwipe to the end for the recipe.",
    "¿Quién se apunta?",
)
TAGS = (
    "", "", "#slowliving", "#handmade #ceramics", "#homebaking", "#trailrunning #mountains",
    "#goldenhour", "#plantsofinstagram 🌿", "#35mm #filmisnotdead", "#foodie #yum", "#ocean #surf",
    "#studiolife", "#weekendvibes", "#travelgram", "#çokgüzel", "#shoplocal",
)  # fmt: skip
# Unusual text that occurs in real posts, which clients must handle.
ROUGH = (
    "<b>BIG</b> news & <i>small</i> print: <script>alert('brunch')</script>",
    "=SUM(croissants) +1 @everyone",
    "Robert'); DROP TABLE media;-- nice try 😅",
    "\x1b[31mred\x1b[0m carpet,\ttabs\tand a bell\x07",
    'C:\\photos\\2024\\"final" {{draft}} ${1} %s',
    "\u202eright to left\u202c and back \u200b\u2028 again",
)
EDITS = (
    "EDIT: sold out, thank you!",
    "Edit: typo, I can bake but not spell 🙈",
    "Update: we have a winner 🎉",
    "(edited: now with the right link)",
)
STORY_CAPTIONS = (
    "",
    "",
    "",
    "good morning ☀️",
    "poll: tea or coffee?",
    "new post up!",
    "24 h only ⏳",
    "live soon",
)
