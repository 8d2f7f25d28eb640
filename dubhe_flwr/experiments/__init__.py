"""Experiments: what the commands of `dubhe` run.

`dubhe_flwr.experiments.compare.compare` needs the extra ``torch``, and it and `progress` take their
time to be imported; settings and studies do without them.
"""

from dubhe_flwr.experiments.settings import COMPARED, METHODS, CompareSettings, StudySettings

__all__ = ["COMPARED", "METHODS", "CompareSettings", "StudySettings"]
