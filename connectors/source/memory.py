"""What is remembered of answers, to notice when they repeat."""

from dataclasses import dataclass, field

from xxhash import xxh3_64_intdigest

# At least this many texts are remembered, and at most twice as many.
_REMEMBERED = 50_000


@dataclass(slots=True)
class Memory:
    """Remembers the last 50,000 to 100,000 texts, as hashes in two sets, which limits the memory."""

    recent: set[int] = field(default_factory=set)
    older: set[int] = field(default_factory=set)

    def remember(self, text: str) -> bool:
        """Remember a text; return whether it is new."""
        digest = xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))
        if digest in self.recent or digest in self.older:
            return False
        if len(self.recent) >= _REMEMBERED:
            self.older, self.recent = self.recent, set()
        self.recent.add(digest)
        return True
