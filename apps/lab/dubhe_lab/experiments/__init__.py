"""Experiments: what the commands of `dubhe` run.

`compare` trains a model with each selection method, `study` only selects, and `my_federation`
studies a user's own label counts. The settings classes in `settings` double as command-line
options. `compare` needs the extra ``torch``; `study` and the settings do not.
"""

from dubhe_lab.experiments.settings import CompareSettings, StudySettings
from dubhe_lab.report.methods import METHODS

__all__ = ["METHODS", "CompareSettings", "StudySettings"]
