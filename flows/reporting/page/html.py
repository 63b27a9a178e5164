"""HTML in which all text is escaped unless this module made it, so that data of the API cannot become markup."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from models.text import one_line

_VOID = frozenset({"meta", "br"})
_LONGEST = 80


class Html(str):
    """Markup that is not escaped again. Any other string is escaped when it is added to a page."""

    __slots__ = ()


Child = str | int | None | Iterable["Child"]


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, int):
        return f"{child:,}"
    return escape(child) if isinstance(child, str) else "".join(map(_text, child))


def element(name: str, /, *children: Child, **attributes: object) -> Html:
    """Return an element. `class_` is class, `data_a` is data-a; attributes that are None are omitted."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    content = "".join(map(_text, children))
    return Html(f"<{name}{given}>" if name in _VOID else f"<{name}{given}>{content}</{name}>")


def join(parts: Iterable[Child]) -> Html:
    """Return the concatenated parts; those that are not markup are escaped."""
    return Html("".join(map(_text, parts)))


def foreign(text: str | None, limit: int = _LONGEST) -> Html:
    """Return text from outside as one line, truncated, and isolated from the text direction around it."""
    return element("bdi", one_line(text, limit)) if text else Html("")


def link(address: str | None, text: Child) -> Html:
    """Return a link that sends no referrer; only the text if `address` is not a web address."""
    if address is None or not address.startswith(("https://", "http://")) or not address.isprintable():
        return join([text])
    return element("a", text, href=address, rel="noopener noreferrer", target="_blank")


@dataclass(frozen=True, slots=True)
class Row:
    """A table's row; the page's filters select it by `account` and `surface`."""

    cells: Sequence[Child]
    account: str | None = None
    surface: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table: `numbers` are the indexes of right-aligned columns, `more` is a line below it."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Row]
    numbers: frozenset[int] = field(default_factory=frozenset)
    more: Child = None

    def html(self) -> Html:
        """Return the table, in a box that scrolls separately on a narrow screen."""
        sides = ["n" if index in self.numbers else None for index in range(len(self.heads))]
        heads = [element("th", head, scope="col", class_=side) for head, side in zip(self.heads, sides, strict=True)]
        table = element(
            "table",
            element("caption", self.caption),
            element("thead", element("tr", heads)),
            element("tbody", [self._row(row, sides) for row in self.rows]),
        )
        more = element("p", self.more, class_="more") if self.more else None
        # Focusable, so that it can be scrolled with the keyboard.
        return join(
            [element("div", table, class_="scroll", tabindex="0", role="region", aria_label=self.caption), more]
        )

    @staticmethod
    def _row(row: Row, sides: Sequence[str | None]) -> Html:
        first, *rest = zip(row.cells, sides, strict=True)
        cells = [element("th", first[0], scope="row", class_=first[1])]
        cells += [element("td", cell, class_=side) for cell, side in rest]
        return element("tr", cells, data_a=row.account, data_s=row.surface)


def figure(title: str, lead: Child, drawing: Child, table: Table | None = None, *, legend: Child = None) -> Html:
    """Return a drawing with its title, a sentence about it, and its numbers as a table that can be unfolded."""
    numbers = element("details", element("summary", "Numbers"), table.html()) if table else None
    caption = element("figcaption", element("h3", title), element("p", lead) if lead else None)
    return element("figure", caption, legend, drawing, numbers)


def rest(total: int, shown: int, query: str) -> Child:
    """Return a line with the number of rows that a table omits, and the command that lists all of them."""
    if total <= shown:
        return None
    return join([f"and {total - shown:,} more: ", element("code", f'gramhouse query "{query}"')])
