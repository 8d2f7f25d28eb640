"""Experiments: what the commands of `dubhe` run.

`dubhe_flwr.experiments.compare.compare` and its `progress` need the extra ``torch`` and are not
imported here, so that settings and summaries do without it.
"""

from dubhe_flwr.experiments.settings import ENGINES, METHODS, CompareSettings
from dubhe_flwr.experiments.summary import summary_sentence, summary_table

__all__ = ["ENGINES", "METHODS", "CompareSettings", "summary_sentence", "summary_table"]
