"""The operations guide knows each line that a round of Dubhe may leave in the log."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
NOTE = re.compile(r"\.noted\(\s*f?\"([^\"]+)\"")


def pieces() -> list[str]:
    """Return the longest piece of each note that is the same in every log."""
    sources = (
        path.read_text("utf-8") for path in (REPOSITORY / "dubhe_flwr/protocol").rglob("*.py")
    )
    notes = (note for source in sources for note in NOTE.findall(source))
    longest = (max(re.split(r"\{[^}]*\}", note), key=len).strip() for note in notes)
    return sorted(piece for piece in longest if piece)


@pytest.mark.parametrize("piece", pieces())
def test_each_note_stands_on_the_page(piece: str) -> None:
    """Whoever looks up a line finds what it means."""
    assert piece in (REPOSITORY / "docs/howto/operations.md").read_text("utf-8")


def test_there_are_notes() -> None:
    """They are found in the code as it is written now."""
    assert len(pieces()) >= 8
