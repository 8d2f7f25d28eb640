"""Skewed federations, virtual clients and data sets."""

from dubhe_flwr.data.dataset import Dataset
from dubhe_flwr.data.federation import Federation, half_normal_proportions
from dubhe_flwr.data.labels import count_labels, load_label_counts
from dubhe_flwr.data.loaders import DATASETS, load_dataset
from dubhe_flwr.data.partition import EMD_TOLERANCE, PartitionKind, client_distributions
from dubhe_flwr.data.virtual import assign_samples, split_writers

__all__ = [
    "DATASETS",
    "EMD_TOLERANCE",
    "Dataset",
    "Federation",
    "PartitionKind",
    "assign_samples",
    "client_distributions",
    "count_labels",
    "half_normal_proportions",
    "load_dataset",
    "load_label_counts",
    "split_writers",
]
