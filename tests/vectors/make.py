"""Writes the test vectors of the wire format: `python tests/vectors/make.py`.

Everything is computed by reference.py from fixed inputs, so that the files never change unless the
format does.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))
from vectors import bad, exchange, mathematics, sessions
from vectors import reference as ref

FOLDER: Final = Path(__file__).parent

GOOD: Final = {
    "categories": mathematics.categories,
    "distributions": mathematics.distributions,
    "layouts": mathematics.layouts,
    "packings": mathematics.packings,
    "messages": exchange.messages,
    "ciphertexts": exchange.ciphertexts,
    "sealed_keys": exchange.sealed_keys,
    "signatures": exchange.signatures,
    "draws": mathematics.draws,
    "probabilities": mathematics.probabilities,
    "choices": mathematics.choices,
    "sessions": sessions.sessions,
}
BAD: Final = {
    "bad_messages": bad.bad_messages,
    "bad_ciphertexts": bad.bad_ciphertexts,
    "bad_packings": bad.bad_packings,
    "bad_sealed_keys": bad.bad_sealed_keys,
    "bad_signatures": bad.bad_signatures,
    "bad_sessions": sessions.bad_sessions,
}


def files() -> Iterator[tuple[str, str]]:
    """Yield name and text of each file."""
    for name, cases in (GOOD | BAD).items():
        about = " ".join((cases.__doc__ or "").split())
        content = {"protocol-version": ref.VERSION, "about": about, "cases": list(cases())}
        yield f"{name}.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write all files beside this script."""
    for name, text in files():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
