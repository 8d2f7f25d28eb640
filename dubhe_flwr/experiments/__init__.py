"""Experiments: what the commands of `dubhe` run.

`dubhe_flwr.experiments.compare.compare` needs the extra ``torch``, and it and `progress` take their
time to be imported; settings, summaries and studies do without them.
"""

from dubhe_flwr.experiments.methods import COMPARED, METHODS
from dubhe_flwr.experiments.settings import ENGINES, CompareSettings
from dubhe_flwr.experiments.study_settings import StudySettings
from dubhe_flwr.experiments.study_summary import study_sentence, study_table
from dubhe_flwr.experiments.summary import summary_sentence, summary_table

__all__ = [
    "COMPARED",
    "ENGINES",
    "METHODS",
    "CompareSettings",
    "StudySettings",
    "study_sentence",
    "study_table",
    "summary_sentence",
    "summary_table",
]
