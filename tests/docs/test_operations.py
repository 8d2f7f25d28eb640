"""The operations guide knows each line that Dubhe may leave in the log, and why a reply is lost."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
LINES = {
    "protocol": (r"\.noted\(\s*f?\"([^\"]+)\"", r"logger\.warning\(\s*\"dubhe: ([^\"]+)\""),
    "adapter": (r"\blog\(\s*[^\"]*\"dubhe: ([^\"]+)\"",),
    "clientapp": (r"\blog\(\s*[^\"]*\"dubhe: ([^\"]+)\"",),
    "serverapp.py": (r"\blog\(\s*[^\"]*\"dubhe: ([^\"]+)\"",),
    "protocol/coordinator/stages": (
        r"return (?:None if \w+ else )?\"([a-z][^\"]+)\"",
        r"without\([^,]+, \"([^\"]+)\"",
    ),
    "protocol/replies.py": (r"dropped\[\"([^\"]+)\"",),
}
"""Where lines and reasons stand, and how they are written there."""


def pieces() -> Iterator[str]:
    """Yield the longest piece of each that is the same in every log."""
    for place, patterns in LINES.items():
        path = REPOSITORY / "dubhe_flwr" / place
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            text = source.read_text("utf-8")
            for line in (found for pattern in patterns for found in re.findall(pattern, text)):
                parts = re.split(r"\{[^}]*\}|%[.\d]*[a-z]", line)
                yield max(parts, key=len).strip(" :;,.")


@pytest.mark.parametrize("piece", sorted(set(filter(None, pieces()))))
def test_each_line_stands_on_the_page(piece: str) -> None:
    """Whoever looks up a line finds what it means."""
    page = (REPOSITORY / "docs/howto/operations.md").read_text("utf-8")
    assert piece in " ".join(page.split())


def test_there_are_lines() -> None:
    """They are found in the code as it is written now."""
    assert len(set(pieces())) >= 40
