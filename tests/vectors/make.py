"""Regenerates the test vectors of the wire format: `python tests/vectors/make.py`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))
from vectors import bad, exchange, mathematics, prices, sessions
from vectors import reference as ref

FOLDER: Final = Path(__file__).parent

FILES: Final = {
    "categories": mathematics.categories,
    "distributions": mathematics.distributions,
    "layouts": mathematics.layouts,
    "packings": mathematics.packings,
    "messages": exchange.messages,
    "ciphertexts": exchange.ciphertexts,
    "committees": exchange.committees,
    "sealed_keys": exchange.sealed_keys,
    "signatures": exchange.signatures,
    "draws": mathematics.draws,
    "probabilities": mathematics.probabilities,
    "choices": mathematics.choices,
    "sessions": sessions.sessions,
    "prices_sessions": prices.prices_sessions,
    "bad_messages": bad.bad_messages,
    "bad_sessions": sessions.bad_sessions,
}


def files() -> Iterator[tuple[str, str]]:
    """Yield the name and text of each file."""
    for name, cases in FILES.items():
        about = " ".join((cases.__doc__ or "").split())
        content = {"protocol-version": ref.VERSION, "about": about, "cases": list(cases())}
        yield f"{name}.json", _written(content, depth=3) + "\n"


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
