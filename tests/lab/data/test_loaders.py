"""Tests of data sets, and of loading them by name."""

import gzip
import struct
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from dubhe_flwr.errors import DataError, SettingsError
from dubhe_lab.data import Dataset, load_dataset

FILES = (
    ("train-images-idx3-ubyte", (6, 28, 28)),
    ("train-labels-idx1-ubyte", (6,)),
    ("t10k-images-idx3-ubyte", (3, 28, 28)),
    ("t10k-labels-idx1-ubyte", (3,)),
)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every download fail at once."""
    monkeypatch.setattr("torchvision.datasets.MNIST.mirrors", ["file:///nowhere/"])


def write_mnist(folder: Path, *, packed: bool) -> None:
    """Write files of MNIST's format: each image is full of its own label."""
    folder.mkdir(parents=True)
    for name, shape in FILES:
        pixels = np.arange(shape[0], dtype=np.uint8).reshape(-1, *[1] * (len(shape) - 1))
        header = struct.pack(f">{1 + len(shape)}i", 0x800 + len(shape), *shape)
        content = header + np.broadcast_to(pixels, shape).tobytes()
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)


def test_digits_are_normalised_and_stratified() -> None:
    """Digits have mean 0 and standard deviation 1; the same fifth of each class is for testing."""
    digits = load_dataset("digits")
    assert digits.image_shape == (1, 8, 8)
    assert digits.train_images.dtype == digits.test_images.dtype == np.float32
    assert digits.train_images.mean() == pytest.approx(0, abs=0.01)
    assert digits.train_images.std() == pytest.approx(1, abs=0.01)
    train, test = np.bincount(digits.train_labels), np.bincount(digits.test_labels)
    assert np.abs(test - 0.2 * (train + test)).max() < 1
    assert np.array_equal(load_dataset("digits").test_images, digits.test_images)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("layout", [".", "MNIST/raw", "mnist", "mnist/MNIST/raw"])
@pytest.mark.usefixtures("offline")
def test_finds_mnist_in_every_layout(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch, *, packed: bool
) -> None:
    """The files are found in each folder that the documentation names, and left as they are."""
    without_checksums = [(f"{name}.gz", None) for name, _ in FILES]
    monkeypatch.setattr("torchvision.datasets.MNIST.resources", without_checksums)
    folder = tmp_path / "data"
    write_mnist(folder / layout, packed=packed)
    before = sorted(folder.rglob("*"))
    mnist = load_dataset("mnist", folder)
    assert mnist.image_shape == (1, 28, 28)
    assert mnist.train_labels.tolist() == list(range(6))
    assert mnist.test_labels.tolist() == list(range(3))
    pixels = mnist.train_images * 0.3081 + 0.1307
    assert np.allclose(pixels[:, 0, 5, 5] * 255, range(6), atol=1e-3)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.usefixtures("offline")
def test_missing_mnist_says_what_to_fetch(tmp_path: Path) -> None:
    """Without files and network, one sentence names the files and the folder."""
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz.*MNIST.raw\.$") as caught:
        load_dataset("mnist", tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("offline")
def test_damaged_mnist_is_not_read(tmp_path: Path) -> None:
    """Packed files whose checksum is wrong are refused like missing ones."""
    write_mnist(tmp_path / "data", packed=True)
    with pytest.raises(DataError, match="fetch train-images"):
        load_dataset("mnist", tmp_path / "data")


def test_an_unknown_name_is_refused() -> None:
    """The error lists the known names."""
    with pytest.raises(SettingsError, match="'imagenet'; choose one of digits, mnist"):
        load_dataset("imagenet")


def test_missing_cifar10_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to fetch and where to put it."""
    fail = Mock(side_effect=RuntimeError("no network"))
    monkeypatch.setattr("torchvision.datasets.CIFAR10", fail)
    with pytest.raises(DataError, match=f"fetch cifar-10.* and put it into {tmp_path}"):
        load_dataset("cifar10", tmp_path)


IMAGES = np.zeros((3, 2, 4, 5), dtype=np.float32)
LABELS = np.array([0, 1, 1])


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (IMAGES, LABELS[:2], r"\(3, 2, 4, 5\) and labels of shape \(2,\)"),
        (IMAGES[:, 0], LABELS, r"\(3, 4, 5\)"),
        (IMAGES, LABELS + 1, "from 1 to 2; 2 classes are numbered 0 to 1"),
        (IMAGES, LABELS - 1, "from -1 to 0"),
    ],
)
def test_refuses_what_does_not_fit(
    part: int, images: np.ndarray, labels: np.ndarray, message: str
) -> None:
    """Images and labels that do not belong together are refused, in either part."""
    parts = [(IMAGES, LABELS), (IMAGES, LABELS)]
    parts[part] = (images, labels)
    with pytest.raises(DataError, match=message):
        Dataset("toy", 2, *parts[0], *parts[1])
