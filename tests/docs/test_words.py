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
    (r'"""Of\b', 0, '"""Of V, within which its sum is met."""', "a sentence with a subject"),
    (
        r"\bis an? `{0,2}[\w.]*Error\b",
        0,
        "It is a\n    # `SettingsError` if K is too large.",
        "Raises `SettingsError` if ...",
    ),
    (
        r"\b(?<!times\s)(?<!twice\s)(?:so|as) many\b",
        0,
        "It needs K, and so\nmany nodes join.",
        "the name of the number, such as K",
    ),
    (r"\bbeside\b", 0, "No sums beside the registry.", "besides, or next to"),
    (
        r"\b(?:that|those) of\b",
        9,
        "The cost is that\nof the paper.",
        "the noun again, or a possessive: the paper's",
    ),
)
"""A pattern, how many times it may occur, a text with it, and what to write instead.

Lines may break at a pattern's spaces.
"""


@pytest.mark.parametrize(("pattern", "most", "sample", "instead"), BANNED)
def test_nobody_writes_what_nobody_says(pattern: str, most: int, sample: str, instead: str) -> None:
    """Docstrings, comments, messages and pages do without, and the pattern finds a sample."""
    phrase = re.compile(pattern.replace(" ", r"[\s#]+"))
    assert phrase.search(sample)
    found = [
        f"{name_of(file)}:{text.count(chr(10), 0, match.start()) + 1}"
        for file in FILES
        for text in [file.read_text("utf-8")]
        for match in phrase.finditer(text)
    ]
    assert len(found) <= most, f"instead of {sample!r}, write {instead}: {', '.join(found)}"
