"""Tests of the stored cells, which fill the pages' tables."""

import json

from docs.pages import ROOT


def test_each_measurement_says_where_it_comes_from() -> None:
    """Each file has seed, device, versions, and a command without personal folders."""
    paths = list(ROOT.glob("docs/*/cells/*/*.json"))
    assert paths
    for path in paths:
        content = json.loads(path.read_text(encoding="utf-8"))
        provenance, config = content["provenance"], content["cell"]["config"]
        assert provenance["seed"] == config.get("seed"), path
        assert provenance["device"], path
        assert {"numpy", "flwr", "dubhe_flwr"} <= provenance["versions"].keys(), path
        assert provenance["command"].startswith(("dubhe paper ", "dubhe reproduce ")), path
        assert " /" not in provenance["command"], path


def test_a_measurement_is_stored_once() -> None:
    """Two pages that show the same measurement share its file."""
    names = [path.name for path in ROOT.glob("docs/*/cells/*/*.json")]
    assert len(names) == len(set(names))
