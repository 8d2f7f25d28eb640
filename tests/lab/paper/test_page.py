"""A page is self-contained, and escapes everything it shows."""

from html.parser import HTMLParser

from dubhe_lab.paper.page import Section, render_page
from dubhe_lab.report.picture import Picture
from dubhe_lab.report.table import Table

SECTION = Section(
    "sizes",
    "Sizes < 1",
    ["As & when."],
    [Table("In <bytes>", ("item", "paper"), [("registry", "29.6"), ("p_l", "29.1")])],
    [Picture("sizes", 'A "figure".', [lambda axes: axes.plot([0, 1])], 2, 2)],
)


class Reader(HTMLParser):
    """Collects texts, tags, and everything that a browser would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts, self.sources, self.tags = list[str](), list[str](), list[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [value or "" for name, value in attrs if name in {"src", "href"}]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_escapes_its_texts_and_fetches_nothing() -> None:
    """The page shows every text, embeds pictures, links only within itself and has no script."""
    found = Reader(render_page("A < B", ["So & so."], [SECTION], {"scale": "<full>"}))
    wanted = {
        "A < B", "So & so.", "Sizes < 1", "As & when.", "In <bytes>", "item", "paper", "registry",
        "29.6", "p_l", "29.1", 'A "figure".', "scale", "<full>",
    }  # fmt: skip
    assert wanted <= set(found.texts)
    assert "script" not in found.tags
    assert {source[:5] for source in found.sources} == {"data:", "#size"}
    assert sum(source.startswith("data:image/png;base64,iVBOR") for source in found.sources) == 1
