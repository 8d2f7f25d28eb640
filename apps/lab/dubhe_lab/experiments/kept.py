"""The results file of a comparison, which saves each finished method so that a run can continue."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from dubhe_flwr.errors import SettingsError
from dubhe_lab.experiments.settings import CompareSettings
from dubhe_lab.report.methods import METHODS
from dubhe_lab.report.results import ComparisonResults, MethodResult, read_json

_MAY_DIFFER: Final = {"methods", "data_dir", "device"}


@dataclass(frozen=True)
class KeptResults:
    """A comparison's results file, and the comparison's settings."""

    path: Path  # written by `ComparisonResults.save`; need not exist yet
    settings: CompareSettings

    def finished(self) -> dict[str, MethodResult]:
        """Return the finished methods in the file, or none if it does not exist.

        Raises `SettingsError` if the file holds anything but results with these settings.
        """
        try:
            content = read_json(self.path, ["config", "methods"])
            if content is None:
                return {}
            methods = {name: MethodResult.from_dict(m) for name, m in content["methods"].items()}
            earlier = {**content["config"]}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise SettingsError(
                f"{self.path} does not hold results of a comparison; choose another --out, or pass "
                "--overwrite."
            ) from None
        own = json.loads(json.dumps(self.settings.flat()))
        differing = [n for n in own if n not in _MAY_DIFFER and earlier.get(n) != own[n]]
        if differing:
            raise SettingsError(
                f"{self.path} holds results of other settings (see {', '.join(differing)}); choose "
                "another --out, or pass --overwrite."
            )
        return methods

    def keep(self, results: ComparisonResults, *, overwrite: bool = False) -> None:
        """Write the results; unless told to overwrite, keep methods that the file already has."""
        methods = {**({} if overwrite else self.finished()), **results.methods}
        in_order = {name: methods[name] for name in METHODS if name in methods}
        config = {**results.config, "methods": list(in_order)}
        replace(results, methods=in_order, config=config).save(self.path)
