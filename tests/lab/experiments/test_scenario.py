"""All methods share the same clients, samples and initial model."""

import numpy as np
import pytest
from small_comparison import small_settings

from dubhe_lab.experiments.scenario import scenario_of


def test_clients_hold_the_samples_that_the_federation_counts() -> None:
    """A client trains on labels that match its row of label counts."""
    scenario = scenario_of(small_settings())
    for partition in range(24):
        labels = scenario.client(partition).train_data[1].numpy()
        counts = np.bincount(labels, minlength=10)
        np.testing.assert_array_equal(counts, scenario.federation.label_counts[partition])


def test_evaluation_does_not_touch_the_clients_model() -> None:
    """Server and clients share no model object, since the server may test during training."""
    scenario = scenario_of(small_settings())
    client = scenario.client(0)
    before = [array.copy() for array in client.get_parameters({})]
    zeros = [np.zeros_like(array) for array in before]
    found = scenario.test(zeros)
    assert found.loss == pytest.approx(np.log(10))
    assert 0.05 < found.accuracy < 0.15
    for one, two in zip(client.get_parameters({}), before, strict=True):
        np.testing.assert_array_equal(one, two)
