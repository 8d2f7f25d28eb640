"""A page holds all it shows, and nothing in it can be taken for markup."""

from html.parser import HTMLParser

from reproduction.page import Picture, Section, render_page

from dubhe_flwr.report.picture import picture
from dubhe_flwr.report.table import Table

SECTION = Section(
    "sizes",
    "Sizes < 1",
    ["As & when."],
    [Table("In <bytes>", ("item", "paper"), [("registry", "29.6"), ("p_l", "29.1")])],
    [Picture("sizes", 'A "figure".', picture([[lambda axes: axes.plot([0, 1])]], (2, 2)))],
)


class Reader(HTMLParser):
    """Collects texts, and whatever a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.sources: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of the sources."""
        self.tags.append(tag)
        self.sources += [value or "" for name, value in attrs if name in {"src", "href"}]

    def handle_data(self, data: str) -> None:
        """Take note of the text."""
        self.texts.append(data)


def read(page: str) -> Reader:
    """Return what a browser finds."""
    reader = Reader()
    reader.feed(page)
    return reader


def test_nothing_is_fetched() -> None:
    """Pictures are data, links lead within the page, and there is no script."""
    reader = read(render_page("Title", [], [SECTION], {}))
    assert "script" not in reader.tags
    assert {source[:5] for source in reader.sources} == {"data:", "#size"}
    assert sum(source.startswith("data:image/png;base64,iVBOR") for source in reader.sources) == 1


def test_all_is_shown_as_it_is() -> None:
    """Texts, every cell of a table, captions and settings."""
    texts = read(render_page("A < B", ["So & so."], [SECTION], {"scale": "<full>"})).texts
    for wanted in (
        "A < B", "So & so.", "Sizes < 1", "As & when.", "In <bytes>", "item", "paper", "registry",
        "29.6", "p_l", "29.1", 'A "figure".', "scale", "<full>",
    ):  # fmt: skip
        assert wanted in texts
