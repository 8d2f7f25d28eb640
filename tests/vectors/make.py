"""Regenerates the test vectors of the wire format: `python tests/vectors/make.py`."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))
from vectors import outputs, prices, sessions
from vectors import reference as ref
from vectors.inputs import FOLDER, Case, cases_of

GENERATED: Final = (sessions.sessions, sessions.bad_sessions, prices.prices_sessions)
"""Functions for the files whose inputs are made here; the other files hold their own."""


def files() -> Iterator[tuple[str, str]]:
    """Yield the name and text of each file."""
    for topic in {path.stem for path in FOLDER.glob("*.json")} & vars(outputs).keys():
        outputs_of = getattr(outputs, topic)
        yield _file(outputs_of, [case | outputs_of(case) for case in cases_of(topic)])
    for generate in GENERATED:
        yield _file(generate, list(generate()))


def _file(about: Callable[..., Any], cases: list[Case]) -> tuple[str, str]:
    """Return the name and text of a file, which the function is named for and describes."""
    text = " ".join((about.__doc__ or "").split())
    content = {"protocol-version": ref.VERSION, "about": text, "cases": cases}
    return f"{about.__name__}.json", _written(content, depth=3) + "\n"


def _written(value: Any, depth: int, indent: str = "") -> str:
    """Return JSON with one line per value and step, so that diffs are readable."""
    inner = indent + " "
    is_steps = isinstance(value, list) and bool(value) and isinstance(value[0], dict)
    if isinstance(value, list) and (depth or is_steps):
        parts = [_written(each, max(0, depth - 1), inner) for each in value]
        return "[\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}]"
    if isinstance(value, dict) and depth:
        parts = [f"{json.dumps(k)}: {_written(v, depth - 1, inner)}" for k, v in value.items()]
        return "{\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}}}"
    return json.dumps(value, ensure_ascii=False)


def main() -> None:
    """Write all files next to this script."""
    for name, text in files():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
