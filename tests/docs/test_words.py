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
    (r'"""Of\b', 0, "a sentence with a subject"),
    (r"\bis an? `{0,2}[\w.]*Error\b", 0, "Raises `SettingsError` if ..."),
    (r"\b(?<!times\s)(?<!twice\s)(?:so|as) many\b", 0, "the name of the number, such as K"),
    (r"\bbeside\b", 0, "besides, or next to"),
    (r"\b(?:that|those) of\b", 9, "the noun again, or a possessive: the paper's"),
)
"""A pattern, how many times it may occur, and what to write instead.

Lines may break at a pattern's spaces.
"""


@pytest.mark.parametrize(("pattern", "most", "instead"), BANNED)
def test_nobody_writes_what_nobody_says(pattern: str, most: int, instead: str) -> None:
    """Docstrings, comments, messages and pages do without."""
    phrase = re.compile(pattern.replace(" ", r"[\s#]+"))
    found = [
        f"{name_of(file)}:{text.count(chr(10), 0, match.start()) + 1}"
        for file in FILES
        for text in [file.read_text("utf-8")]
        for match in phrase.finditer(text)
    ]
    assert len(found) <= most, f"instead of {pattern}, write {instead}: {', '.join(found)}"
