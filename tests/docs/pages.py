"""The pages of the documentation, and their blocks of code."""

import re
from functools import cache
from pathlib import Path
from runpy import run_path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("apps/*/README.md"), *ROOT.glob("docs/**/*.md")]
)


@cache
def tables() -> dict[str, Any]:
    """Return what `docs/tables.py` defines, whose measurements all tests share."""
    return run_path(str(ROOT / "docs" / "tables.py"))


def name_of(page: Path) -> str:
    """Return the path of a page within the repository."""
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """Return the blocks of a page in a language, but for those marked as `not run: REASON`."""
    found = re.findall(
        rf"(<!-- not run: [^>]+ -->\n\n)?^```{language}\n(.*?)^```$",
        page.read_text(),
        re.DOTALL | re.MULTILINE,
    )
    return [text for marked, text in found if not marked]


def run(page: Path, number: int | None = None) -> dict[str, Any]:
    """Run the Python blocks of a page, or the first `number`, and return what they define."""
    names: dict[str, Any] = {"__name__": "__docs__"}
    for block in blocks(page, "python")[:number]:
        exec(compile(block, str(page), "exec"), names)  # noqa: S102 - our own documentation
    return names
