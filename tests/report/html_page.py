"""An HTML page as a parser sees it: its elements, attributes and text."""

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Page(HTMLParser):
    """Parses a page; raises AssertionError if elements are not properly nested."""

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def attributes(self, name: str) -> list[str]:
        """Return all values of an attribute."""
        return [str(found[name]) for _, found in self.tags if name in found]


def parsed(html: str) -> Page:
    """Parse a page."""
    page = Page()
    page.feed(html)
    page.close()
    assert page.open == []
    return page
