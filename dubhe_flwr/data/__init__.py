"""Skewed federations, virtual clients and data sets."""

from dubhe_flwr.data.dataset import Dataset
from dubhe_flwr.data.federation import Federation, half_normal_proportions
from dubhe_flwr.data.labels import count_labels, load_label_counts
from dubhe_flwr.data.loaders import DATASETS, USUAL_FOLDER, load_dataset
from dubhe_flwr.data.partition import (
    EMD_TOLERANCE,
    PartitionKind,
    client_distributions,
    largest_remainder,
)
from dubhe_flwr.data.virtual import assign_samples

__all__ = [
    "DATASETS",
    "EMD_TOLERANCE",
    "USUAL_FOLDER",
    "Dataset",
    "Federation",
    "PartitionKind",
    "assign_samples",
    "client_distributions",
    "count_labels",
    "half_normal_proportions",
    "largest_remainder",
    "load_dataset",
    "load_label_counts",
]
