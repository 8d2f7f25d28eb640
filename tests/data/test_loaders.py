"""Tests of data sets, and of loading them by name."""

import gzip
import struct
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image

from dubhe_flwr.data import Dataset, load_dataset
from dubhe_flwr.errors import DataError, SettingsError

REAL = Path(__file__).parents[3] / "shared" / "data"
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


def write_mnist(folder: Path) -> None:
    """Write files of MNIST's format, unpacked: each image is full of its own label."""
    folder.mkdir(parents=True)
    for name, shape in FILES:
        pixels = np.arange(shape[0], dtype=np.uint8).reshape(-1, *[1] * (len(shape) - 1))
        header = struct.pack(f">{1 + len(shape)}i", 0x800 + len(shape), *shape)
        (folder / name).write_bytes(header + np.broadcast_to(pixels, shape).tobytes())


def test_digits_are_normalised_and_stratified() -> None:
    """Mean 0, standard deviation 1, and the same fifth of each class in the test every time."""
    digits = load_dataset("digits")
    assert digits.image_shape == (1, 8, 8)
    assert digits.train_images.dtype == digits.test_images.dtype == np.float32
    assert digits.train_images.mean() == pytest.approx(0, abs=0.01)
    assert digits.train_images.std() == pytest.approx(1, abs=0.01)
    train, test = np.bincount(digits.train_labels), np.bincount(digits.test_labels)
    assert np.abs(test - 0.2 * (train + test)).max() < 1
    assert np.array_equal(load_dataset("digits").test_images, digits.test_images)


@pytest.mark.parametrize("layout", [".", "MNIST/raw", "mnist", "mnist/MNIST/raw"])
@pytest.mark.usefixtures("offline")
def test_finds_mnist_in_every_layout(tmp_path: Path, layout: str) -> None:
    """The files are found in each folder that the documentation names, and left as they are."""
    folder = tmp_path / "data"
    write_mnist(folder / layout)
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
    write_mnist(tmp_path / "data")
    for name, _ in FILES:
        path = tmp_path / "data" / name
        path.with_name(f"{name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    with pytest.raises(DataError, match="fetch train-images"):
        load_dataset("mnist", tmp_path / "data")


@pytest.mark.skipif(not REAL.is_dir(), reason="the files of MNIST are not at hand")
@pytest.mark.usefixtures("offline")
def test_reads_the_real_mnist() -> None:
    """The four packed files give the known images, normalised, from a read-only folder."""
    mnist = load_dataset("mnist", REAL / "mnist")
    assert mnist.train_images.shape == (60_000, 1, 28, 28)
    assert mnist.test_images.shape == (10_000, 1, 28, 28)
    assert mnist.train_images.dtype == np.float32
    assert mnist.train_labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert np.bincount(mnist.test_labels).tolist() == [
        980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009,
    ]  # fmt: skip
    assert mnist.train_images.mean() == pytest.approx(0, abs=0.001)
    assert mnist.train_images.std() == pytest.approx(1, abs=0.001)


def test_an_unknown_name_is_refused() -> None:
    """With the known ones."""
    with pytest.raises(SettingsError, match="'imagenet'; choose one of digits, mnist"):
        load_dataset("imagenet")


@pytest.fixture
def tiles(tmp_path: Path) -> Path:
    """Return a folder with one tile of 2 x 3 images for each part; each image has its own red."""
    for part in ("train", "test"):
        rows = [
            np.concatenate([np.full((32, 32, 3), (10 * (3 * r + c), 7, 9)) for c in range(3)], 1)
            for r in range(2)
        ]
        pixels = np.concatenate(rows).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{part}_00.webp", lossless=True)
    np.savez(tmp_path / "labels.npz", y_train=np.arange(6), y_test=np.arange(6)[::-1])
    return tmp_path


def test_tiles_of_cifar10_are_cut_row_by_row(tiles: Path) -> None:
    """Channels come first, and are normalised each on its own; a missing tile is an error."""
    images = load_dataset("cifar10", tiles)
    assert images.train_images.shape == (6, 3, 32, 32)
    assert images.train_images.dtype == np.float32
    red = images.train_images[:, 0] * 0.2470 + 0.4914
    np.testing.assert_allclose(red[:, 4, 5] * 255, 10 * np.arange(6), atol=1e-3)
    blue = images.train_images[:, 2] * 0.2616 + 0.4465
    np.testing.assert_allclose(blue * 255, 9, atol=1e-3)
    assert images.test_labels.tolist() == [5, 4, 3, 2, 1, 0]
    (tiles / "test_00.webp").unlink()
    with pytest.raises(DataError, match=f"{tiles} cannot be read.*fetch them again"):
        load_dataset("cifar10", tiles)


def test_missing_cifar10_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to fetch and where to put it."""
    fail = Mock(side_effect=RuntimeError("no network"))
    monkeypatch.setattr("torchvision.datasets.CIFAR10", fail)
    with pytest.raises(DataError, match=f"fetch cifar-10.* and put it into {tmp_path}"):
        load_dataset("cifar10", tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason="the tiles of CIFAR-10 are not at hand")
def test_reads_the_real_tiles() -> None:
    """5000 and 1000 images of each class, normalised."""
    images = load_dataset("cifar10", REAL)
    assert np.bincount(images.train_labels).tolist() == [5000] * 10
    assert np.bincount(images.test_labels).tolist() == [1000] * 10
    np.testing.assert_allclose(images.train_images.mean(axis=(0, 2, 3)), 0, atol=1e-3)
    np.testing.assert_allclose(images.train_images.std(axis=(0, 2, 3)), 1, atol=1e-3)


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
