"""The training that a selection steers: one client of the MNIST federation, measured."""

from collections.abc import Callable

from dubhe_flwr.core import generator

__all__ = ["mnist_client"]

_NUM_SAMPLES = 128
_BATCH_SIZE = 8


def mnist_client() -> Callable[[], object]:
    """Return the training of one client in one round: N_VC = 128, B = 8, one thread.

    The images are random numbers of the size of MNIST's; the time does not depend on them.

    Raises
    ------
    ModuleNotFoundError
        Without torch, an extra.
    """
    # An extra, and only some of the figures need it.
    from dubhe_flwr.training import TorchClient, build_model  # noqa: PLC0415

    rng = generator(0, "bench", "images")
    images = rng.random((_NUM_SAMPLES, 1, 28, 28), dtype="float32")
    labels = rng.integers(10, size=_NUM_SAMPLES)
    client = TorchClient(
        build_model("mnist", 10, 0),
        (images, labels),
        batch_size=_BATCH_SIZE,
        device="cpu",
        num_threads=1,
    )
    parameters = client.get_parameters({})
    return lambda: client.fit(parameters, {"server-round": 1})
