"""Where and how torch computes: device, random numbers, threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from dubhe_flwr.errors import SettingsError

__all__ = ["isolated_rng", "limited_threads", "resolve_device"]


def resolve_device(device: str = "auto") -> torch.device:
    """Return the device to train on; ``auto`` is the GPU if there is one.

    Raises
    ------
    SettingsError
        If there is no such device.

    Examples
    --------
    >>> resolve_device("cpu")
    device(type='cpu')
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, index = device.partition(":")
    if kind not in {"cpu", "cuda"} or not (index or "0").isdecimal():
        raise SettingsError(f"device is {device!r}; choose 'auto', 'cpu' or 'cuda'.")
    if kind == "cuda" and int(index or 0) >= torch.cuda.device_count():
        raise SettingsError(
            f"device is {device!r}, but torch sees {torch.cuda.device_count()} GPUs; choose "
            "device='auto', or install a CUDA build of torch and give the client a GPU."
        )
    return torch.device(device)


@contextmanager
def isolated_rng(device: torch.device, seed: int) -> Iterator[None]:
    """Seed torch's own random numbers, such as dropout's, and put their state back afterwards.

    The seed is from 0 to 2**63 - 1, for the device and the CPU.
    """
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        # torch.manual_seed would seed every GPU, those not put back included.
        torch.default_generator.manual_seed(seed)
        if on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


@contextmanager
def limited_threads(num_threads: int | None) -> Iterator[None]:
    """Let torch compute with a number of CPU threads, and put the old number back afterwards.

    Sums are rounded in another order with another number of threads, so results repeat to the
    last bit only with the same number. With None nothing changes.

    Examples
    --------
    >>> with limited_threads(1):
    ...     torch.get_num_threads()
    1
    """
    if num_threads is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
