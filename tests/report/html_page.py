"""An HTML page as a parser sees it: its elements, attributes and text."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """A parsed page, whose elements are properly nested."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags = list[tuple[str, dict[str, str | None]]]()
        self.text = ""
        self.comments = list[str]()
        self._open = list[str]()
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), (tag, attrs)
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] != ["style"]:
            self.text += data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def attributes(self, name: str) -> list[str]:
        """Return all values of an attribute."""
        return [str(found[name]) for _, found in self.tags if name in found]
