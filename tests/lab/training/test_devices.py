"""Tests of the choice of device, random numbers and threads."""

from contextlib import suppress

import pytest
import torch

from dubhe_flwr.errors import SettingsError
from dubhe_lab.training.loop import isolated_rng, limited_threads, resolve_device

CPU = torch.device("cpu")


@pytest.mark.parametrize(("available", "kind"), [(True, "cuda"), (False, "cpu")])
def test_auto_uses_the_gpu_if_there_is_one(
    monkeypatch: pytest.MonkeyPatch, available: bool, kind: str
) -> None:
    """The device is the GPU if torch sees one, else the CPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    assert resolve_device("auto").type == kind


def test_missing_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing GPU is refused with a remedy."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SettingsError, match="torch sees no GPU for device='cuda'; choose"):
        resolve_device("cuda")


def test_rng_is_seeded_and_restored() -> None:
    """Random numbers follow the seed inside, and continue undisturbed outside."""
    torch.manual_seed(1)
    undisturbed = torch.rand(4)
    torch.manual_seed(1)
    with isolated_rng(CPU, seed=7):
        first = torch.rand(3)
    with pytest.raises(RuntimeError, match="negative"), isolated_rng(CPU, seed=7):
        torch.rand(-1)
    assert torch.equal(torch.rand(4), undisturbed)
    with isolated_rng(CPU, seed=7):
        assert torch.equal(torch.rand(3), first)
    with isolated_rng(CPU, seed=8):
        assert not torch.equal(torch.rand(3), first)


def test_threads_are_limited_and_restored() -> None:
    """The number of threads is limited inside and restored outside, even after an error."""
    before = torch.get_num_threads()
    with suppress(KeyError), limited_threads(before + 1):
        assert torch.get_num_threads() == before + 1
        raise KeyError
    assert torch.get_num_threads() == before
    with limited_threads(None):
        assert torch.get_num_threads() == before
