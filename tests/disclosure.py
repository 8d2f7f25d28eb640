"""What must not be found in the clear in anything that travels."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dubhe_flwr.core.codebook import Codebook
from dubhe_flwr.core.distribution import fixed_point_distribution
from dubhe_lab.data.measures import overall_registry

HEADER = {"version", "epoch", "stage", "sequence"}
"""Fields of every message."""


def encodings(vector: Any) -> set[bytes]:
    """Return the obvious ways to write down a vector of numbers."""
    array = np.asarray(vector)
    integers = (">i8", "<i8", ">i4", "<i4", ">i2", "<i2", ">u1")
    floats = (">f8", "<f8", ">f4", "<f4")
    fitting = [k for k in integers if array.dtype.kind != "f" and (array.astype(k) == array).all()]
    binary = {array.astype(kind).tobytes() for kind in (*fitting, *floats)}
    listed = array.tolist()
    texts = {json.dumps(listed), json.dumps(listed, separators=(",", ":"))}
    texts |= {joiner.join(map(str, listed)) for joiner in (",", " ", ";", "\n", "")}
    found = binary | {text.encode() for text in texts}
    # Shorter ones would now and then be found in ciphertexts by chance.
    return {encoding for encoding in found if len(encoding) >= 8}


def label_secrets(
    label_counts: ArrayLike, reference_set: Sequence[int], thresholds: Mapping[int, float]
) -> set[bytes]:
    """Return the ways to write down R_A, and each node's labels, p_l and registry."""
    rows = np.asarray(label_counts)
    codebook = Codebook(reference_set)
    overall, slots = overall_registry(rows, codebook, thresholds)
    secrets = encodings(overall)
    for counts, slot in zip(rows, slots, strict=True):
        secrets |= encodings(fixed_point_distribution(counts))
        secrets |= encodings(counts)
        secrets |= encodings(counts / counts.sum())
        secrets |= encodings(np.eye(codebook.length, dtype=np.int64)[slot])
    return secrets
