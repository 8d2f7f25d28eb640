"""Phrases that nobody would say stay out of the code and the documentation."""

import re
from typing import Final

import pytest
from docs.pages import PAGES, ROOT, name_of

FILES: Final = [
    ROOT / "README.md",
    *(page for page in PAGES if page.parent != ROOT),
    *(path for folder in ("dubhe_flwr", "apps") for path in ROOT.glob(f"{folder}/**/*.py")),
]
BANNED: Final = (
    (r'"""Of\b', 0, '"""Of V, within which its sum is met."""'),
    (r"\bis an? `{0,2}[\w.]*Error\b", 0, "It is a\n    # `SettingsError` if K is too large."),
    (r"\b(?<!times\s)(?<!twice\s)(?:so|as) many\b", 0, "It needs K, and so\nmany nodes join."),
    (r"\bbeside\b", 0, "No sums beside the registry."),
    (r"\b(?:that|those) of\b", 9, "The cost is that\nof the paper."),
)
"""A pattern, how many times it may occur, and a text with it; lines may break at its spaces."""


@pytest.mark.parametrize(("pattern", "most", "sample"), BANNED)
def test_nobody_writes_what_nobody_says(pattern: str, most: int, sample: str) -> None:
    """Docstrings, comments, messages and pages do without, and the pattern finds a sample."""
    phrase = re.compile(pattern.replace(" ", r"[\s#]+"))
    assert phrase.search(sample)
    found = [name_of(file) for file in FILES for _ in phrase.findall(file.read_text("utf-8"))]
    assert len(found) <= most, found
