"""A comparison keeps each finished method at once, and goes on where it stopped."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from dubhe_flwr.errors import SettingsError
from dubhe_lab.experiments.settings import METHODS, CompareSettings
from dubhe_lab.report.results import ComparisonResults, MethodResult

_MAY_DIFFER: Final = {"methods", "data_dir", "device"}


@dataclass(frozen=True)
class KeptResults:
    """The file of the results of a comparison, and the settings of that comparison."""

    path: Path  # as `ComparisonResults.save` writes it, or none yet
    settings: CompareSettings

    def finished(self) -> dict[str, MethodResult]:
        """Return the methods in the file; what is not of these settings is a `SettingsError`."""
        if not self.path.exists():
            return {}
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            methods = {name: MethodResult.from_dict(m) for name, m in content["methods"].items()}
            earlier = content["config"]
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise SettingsError(
                f"{self.path} does not hold results of a comparison; give another --out, or "
                "--overwrite."
            ) from None
        own = json.loads(json.dumps(self.settings.flat()))
        differing = [n for n in own if n not in _MAY_DIFFER and earlier.get(n) != own[n]]
        if differing:
            raise SettingsError(
                f"{self.path} holds results of other settings ({', '.join(differing)}); give "
                "another --out, or --overwrite."
            )
        return methods

    def keep(self, results: ComparisonResults) -> None:
        """Write results, beside what another run may have written since."""
        methods = {**self.finished(), **results.methods}
        in_order = {name: methods[name] for name in METHODS if name in methods}
        config = {**results.config, "methods": list(in_order)}
        replace(results, methods=in_order, config=config).save(self.path)
