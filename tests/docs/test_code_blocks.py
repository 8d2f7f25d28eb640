"""Every Python block of the documentation runs, in the order in which it stands."""

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [page for page in sorted(ROOT.glob("docs/**/*.md")) if "```python" in page.read_text()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader may paste the blocks one after the other."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__docs__"}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(block, str(page), "exec"), namespace)  # noqa: S102 - our own documentation


def test_the_test_command_of_the_readme_is_the_one_that_ci_calls() -> None:
    """CI runs what the README says, word for word."""
    readme = (ROOT / "README.md").read_text()
    command = re.search(r"Run the tests:\n\n```bash\n(.*?)\n```", readme, re.DOTALL)
    assert command is not None
    assert command[1] in (ROOT / ".ci" / "run").read_text().splitlines()
