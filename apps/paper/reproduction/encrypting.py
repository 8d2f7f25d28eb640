"""Cells of the overhead: what encryption costs a client, and what travels."""

import time
from collections.abc import Callable, Mapping
from itertools import islice
from statistics import median
from typing import Any

import numpy as np

from dubhe_flwr.core import FIXED_POINT_SCALE
from dubhe_flwr.experiments.elements import ElementByElement
from dubhe_flwr.experiments.study import draw_federation, encrypted_plans
from dubhe_flwr.he import Field, Layout, SecretKey, generate_secret_key
from reproduction.cell import Advance, Cell, Measured, Resources
from reproduction.methods import Method
from reproduction.selecting import study_cell, study_settings

__all__ = ["encryption_cell", "exchange_cell", "measure_encryption", "measure_exchange"]

_VECTORS = {
    "registry of 56": (1000, Field("registry", 56, 1)),
    "registry of 53": (8962, Field("registry", 53, 1)),
    "p_l of 10 classes": (1000, Field("distribution", 10, FIXED_POINT_SCALE)),
    "p_l of 52 classes": (8962, Field("distribution", 52, FIXED_POINT_SCALE)),
}
"""What a client encrypts, and the number of clients for which it is laid out."""


def encryption_cell(repetitions: int, key_bits: int = 2048) -> Cell:
    """Return the cell of the time and size of ciphertexts.

    Parameters
    ----------
    repetitions : int
        Times of which the median is taken.
    key_bits : int (default: 2048)
        Size of the Paillier modulus; less is for tests only.
    """
    config = {"key_bits": key_bits, "repetitions": repetitions}
    return Cell("encryption", f"encryption with {key_bits} bits", config, 0.7 * repetitions)


def exchange_cell(method: Method, **given: Any) -> Cell:
    """Return the cell of the messages of the protocol.

    Parameters
    ----------
    method : Method
        Dubhe, with what it sets.
    **given
        Settings of the study, as in `StudySettings`.
    """
    of_study = study_cell(method, encrypted=True, **given)
    clients = int(of_study.config["num_clients"])
    return Cell("exchange", f"messages of {of_study.name}", of_study.config, clients * 0.02)


def measure_encryption(
    config: Mapping[str, Any], _resources: Resources, advance: Advance
) -> Measured:
    """Time encryption and decryption, packed and element by element."""
    key_bits, repetitions = int(config["key_bits"]), int(config["repetitions"])
    began = time.perf_counter()
    key = generate_secret_key(key_bits)
    result: dict[str, Any] = {"key_generation_seconds": time.perf_counter() - began}
    for name, (num_clients, field) in _VECTORS.items():
        layout = Layout(key_bits, num_clients, (field,))
        values = np.zeros(field.num_slots, dtype=np.int64)
        values[3] = field.max_value
        result[name] = {
            "packed": _packed(key, layout, field, values, repetitions),
            "by_element": _by_element(key, values.tolist(), max(1, repetitions // 10)),
        }
        advance(1 / len(_VECTORS))
    return Measured(result)


def measure_exchange(
    config: Mapping[str, Any], _resources: Resources, advance: Advance
) -> Measured:
    """Run the encrypted protocol and sum up its stages by round."""
    settings = study_settings(config)
    plans = encrypted_plans("dubhe", settings, draw_federation(settings))
    rounds = []
    began = time.perf_counter()
    for plan in islice(plans, settings.num_rounds):
        stages = [
            {
                "stage": stage.stage,
                "messages": stage.sent,
                "bytes_down": stage.bytes_down,
                "bytes_up": stage.bytes_up,
            }
            for stage in plan.stages
        ]
        rounds.append({"seconds": time.perf_counter() - began, "stages": stages})
        began = time.perf_counter()
        advance(1 / settings.num_rounds)
    return Measured({"rounds": rounds})


def _packed(
    key: SecretKey, layout: Layout, field: Field, values: np.ndarray[Any, Any], repetitions: int
) -> dict[str, Any]:
    vector = key.encrypt(layout.pack(field.name, values))
    return {
        "bytes": len(vector),
        "encrypt_seconds": _seconds(
            lambda: key.encrypt(layout.pack(field.name, values)), repetitions
        ),
        "decrypt_seconds": _seconds(lambda: key.decrypt(vector), repetitions),
    }


def _by_element(key: SecretKey, values: list[int], repetitions: int) -> dict[str, Any]:
    vector = ElementByElement(key, values)
    return {
        "bytes": vector.num_bytes,
        "encrypt_seconds": _seconds(vector.encrypt, repetitions),
        "decrypt_seconds": _seconds(vector.decrypt, repetitions),
    }


def _seconds(action: Callable[[], object], repetitions: int) -> float:
    taken = []
    for _ in range(repetitions):
        began = time.perf_counter()
        action()
        taken.append(time.perf_counter() - began)
    return median(taken)
