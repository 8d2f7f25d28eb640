"""A server that counts yes and no of nodes by the paper's rule; the page says what it finds."""

import re

import pytest
from docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "explanation" / "threat_model.md"


def test_what_draws_of_the_papers_rule_tell(capsys: pytest.CaptureFixture[str]) -> None:
    """How often it finds the size of a node's category, and the node's most frequent class."""
    (program,) = blocks(PAGE, "python")
    exec(compile(program, str(PAGE), "exec"), {})  # noqa: S102 - our own documentation
    found = re.findall(r"(\d+)%", capsys.readouterr().out)
    table = PAGE.read_text(encoding="utf-8").split("| draws watched |")[1].split("\n\n")[0]
    assert found == re.findall(r"(\d+) %", table)
    assert len(found) == 10
