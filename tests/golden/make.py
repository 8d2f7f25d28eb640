"""Rewrites the golden traces after an intended change: `python tests/golden/make.py`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))
from golden.scenarios import SCENARIOS, SEEDS, rounds_of

TRACES: Final = Path(__file__).with_name("traces.json")


def lines() -> Iterator[str]:
    """Yield the lines of the file: one for each round, and one for each run."""
    for name in SCENARIOS:
        for seed in SEEDS:
            rounds = rounds_of(name, seed)
            written = ",\n".join(json.dumps(each, separators=(",", ":")) for each in rounds)
            yield f"{json.dumps(f'{name}, seed {seed}')}: [\n{written}\n]"


def main() -> None:
    """Write the file next to this script."""
    TRACES.write_text("{\n" + ",\n".join(lines()) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
