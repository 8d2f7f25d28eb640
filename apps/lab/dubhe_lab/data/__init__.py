"""Skewed federations, virtual clients and data sets."""

from dubhe_lab.data.dataset import Dataset
from dubhe_lab.data.federation import Federation, half_normal_proportions
from dubhe_lab.data.loaders import DATASETS, USUAL_FOLDER, load_dataset
from dubhe_lab.data.partition import (
    EMD_TOLERANCE,
    PartitionKind,
    client_distributions,
    largest_remainder,
)
from dubhe_lab.data.tables import LabelCounts, load_label_counts
from dubhe_lab.data.virtual import assign_samples

__all__ = [
    "DATASETS",
    "EMD_TOLERANCE",
    "USUAL_FOLDER",
    "Dataset",
    "Federation",
    "LabelCounts",
    "PartitionKind",
    "assign_samples",
    "client_distributions",
    "half_normal_proportions",
    "largest_remainder",
    "load_dataset",
    "load_label_counts",
]
