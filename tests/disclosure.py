"""What must not be found in the clear in anything that travels."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dubhe_flwr.core import Codebook, fixed_point_distribution, overall_registry, registry


def encodings(vector: Any) -> list[bytes]:
    """Return the obvious ways to write down a vector of numbers."""
    array = np.asarray(vector)
    floats = (">f8", "<f8", ">f4", "<f4")
    integers = (">i8", "<i8", ">i4", "<i4", ">i2", "<i2", "u1")
    kinds = floats if array.dtype.kind == "f" else floats + integers
    fits = [kind for kind in kinds if kind in floats or (array.astype(kind) == array).all()]
    binary = [array.astype(kind).tobytes() for kind in fits]
    text = [json.dumps(array.tolist()).encode(), ",".join(map(str, array.tolist())).encode()]
    # Shorter ones would now and then be found in ciphertexts by chance.
    return [encoded for encoded in [*binary, *text] if len(encoded) >= 8]


def label_secrets(
    label_counts: ArrayLike, reference_set: Sequence[int], thresholds: Mapping[int, float]
) -> list[bytes]:
    """Return the ways to write down R_A, and each node's labels, p_l and registry."""
    rows = np.asarray(label_counts)
    codebook = Codebook(reference_set)
    overall, slots = overall_registry(rows, codebook, thresholds)
    secrets = encodings(overall)
    for counts, slot in zip(rows, slots, strict=True):
        secrets += encodings(fixed_point_distribution(counts))
        secrets += encodings(counts)
        secrets += encodings(counts / counts.sum())
        secrets += encodings(registry(codebook.unrank(int(slot)), codebook))
    return secrets
