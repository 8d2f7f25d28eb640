"""Apps like Flower's own examples run with Dubhe, with only a few lines added."""

import pytest
import small_apps

from dubhe_flwr.simulation import run_in_process

OUTCOMES = {
    "xgboost": (5 * small_apps.ROUNDS, 5 * small_apps.ROUNDS),  # trees
    "masked": (0.0, 0.01),  # distance from the mean of the selected clients' models
    "advanced": (0.5, 1.0),  # accuracy
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_it_runs_on_the_clients_that_dubhe_selects(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each round trains the clients that Dubhe selects, and the run has the expected result."""
    least, most = OUTCOMES[name]
    server, client = (getattr(small_apps, f"{name}_{side}") for side in ("server", "client"))
    with caplog.at_level("INFO", logger="flwr"):
        state = run_in_process(server, client, num_supernodes=12).state
    assert caplog.text.count("dubhe: 5 of 12 clients selected") == small_apps.ROUNDS
    of_masked = "equal_weights has no effect with SecAgg+"
    assert caplog.text.count(of_masked) == (name == "masked")
    assert least <= state.metric_records["outcome"]["outcome"] <= most  # type: ignore[operator]
