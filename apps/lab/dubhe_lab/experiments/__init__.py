"""Experiments: what the commands of `dubhe` run.

`dubhe_lab.experiments.compare.compare` needs the extra ``torch``, and it and `progress` take their
time to be imported; settings and studies do without them.
"""

from dubhe_lab.experiments.settings import COMPARED, METHODS, CompareSettings, StudySettings

__all__ = ["COMPARED", "METHODS", "CompareSettings", "StudySettings"]
