"""The training loop and the evaluation of a classifier, repeatable on a CPU and on a GPU.

Nothing here depends on torch's global state. The order of samples and dropout's masks come from
the generator that the caller passes, and `isolated_rng` restores torch's own random state
afterwards. `limited_threads` fixes the number of CPU threads, since it changes how sums round.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam, Optimizer

from dubhe_flwr.errors import SettingsError
from dubhe_lab.training.local_losses import LocalLoss

OptimizerFactory: TypeAlias = Callable[[Iterable[nn.Parameter]], Optimizer]
"""Makes a new optimizer for the parameters of a model."""


class Evaluation(NamedTuple):
    """The results of an evaluation: loss and accuracy over samples, and recalls over classes.

    Balanced accuracy is the mean recall over the classes in the test data, and the worst recall is
    the lowest.
    """

    loss: float
    accuracy: float
    balanced_accuracy: float
    worst_recall: float


class TrainingLoss(NamedTuple):
    """The losses while training: mean over batches, and root mean square over samples."""

    mean: float
    rms: float


def adam(learning_rate: float = 1e-4) -> OptimizerFactory:
    """Return a factory of Adam optimizers without weight decay, as in the paper.

    Torch's fused implementation makes a training step on a CPU more than a quarter faster.
    """
    return partial(Adam, lr=learning_rate, fused=True)


def sgd(learning_rate: float = 0.1) -> OptimizerFactory:
    """Return a factory of plain stochastic gradient descent, the optimizer of FedAvg."""
    return partial(SGD, lr=learning_rate)


def train(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    generator: np.random.Generator,
    epochs: int = 1,
    batch_size: int = 8,
    optimizer: OptimizerFactory | None = None,
    local_loss: LocalLoss | None = None,
    proximal: float = 0.0,
) -> TrainingLoss:
    """Train a model in place, on the device of its parameters, and return its losses.

    The other arguments are the same as for `TorchClient`. The returned losses are cross-entropy,
    whichever loss is minimised. All randomness (sample order, dropout) comes from the generator;
    torch's own random state stays as it was.

    >>> model = nn.Linear(2, 2)
    >>> points, classes = torch.eye(2).repeat(50, 1), torch.arange(2).repeat(50)
    >>> fitting = partial(train, model, points, classes, optimizer=adam(0.1))
    >>> first, second = (fitting(generator=np.random.default_rng(seed)) for seed in range(2))
    >>> second.mean < first.mean
    True
    """
    if min(len(labels), epochs, batch_size) < 1:
        raise SettingsError(
            f"Training needs at least one sample, one epoch and a batch_size of 1; got "
            f"{len(labels)} samples, epochs={epochs}, batch_size={batch_size}."
        )
    device = next(model.parameters()).device
    images, labels = images.to(device), labels.to(device)
    losses: list[Tensor] = []
    squares = torch.zeros((), device=device)
    first = [p.detach().clone() for p in model.parameters()] if proximal else []
    stepper = (optimizer or adam())(model.parameters())
    model.train()
    with isolated_rng(device, int(generator.integers(2**63))):
        for _ in range(epochs):
            order = torch.from_numpy(generator.permutation(len(labels))).to(device)
            for batch in torch.split(order, batch_size):
                stepper.zero_grad()
                logits, target = model(images[batch]), labels[batch]
                loss = cross_entropy(logits, target)
                minimised = loss if local_loss is None else local_loss(logits, target)
                minimised.backward()  # type: ignore[no-untyped-call]
                for parameter, start in zip(model.parameters(), first, strict=False):
                    if parameter.grad is not None:
                        parameter.grad.add_(parameter.detach() - start, alpha=proximal)
                stepper.step()
                losses.append(loss.detach())
                squares += cross_entropy(logits.detach(), target, reduction="none").square().sum()
    mean_square = float(squares) / (epochs * len(labels))
    return TrainingLoss(float(torch.stack(losses).mean()), mean_square**0.5)


@torch.inference_mode()
def evaluate(
    model: nn.Module, images: Tensor, labels: Tensor, *, batch_size: int = 128
) -> Evaluation:
    """Return mean cross-entropy loss, accuracy and recalls of a model that returns logits.

    Images and labels are as in `train`. The model sees `batch_size` of them at a time; larger
    batches are slower on a CPU.

    Examples
    --------
    >>> found = evaluate(nn.Identity(), torch.eye(3), torch.tensor([0, 0, 2]))
    >>> round(found.loss, 3), round(found.accuracy, 3)
    (0.885, 0.667)
    >>> found.balanced_accuracy, found.worst_recall  # one in two of class 0, all of class 2
    (0.75, 0.5)
    """
    if not len(labels):
        raise SettingsError("Evaluation needs at least one sample.")
    device = next((parameter.device for parameter in model.parameters()), images.device)
    loss = torch.zeros((), device=device)
    held, hits = [], []  # for each batch, by class
    model.eval()
    for batch in torch.split(torch.arange(len(labels)), batch_size):
        logits, target = model(images[batch].to(device)), labels[batch].to(device)
        loss += cross_entropy(logits, target, reduction="sum")
        held.append(torch.bincount(target, minlength=logits.shape[1]))
        right = target[logits.argmax(dim=1) == target]
        hits.append(torch.bincount(right, minlength=logits.shape[1]))
    of_class, right_of_class = torch.stack(held).sum(dim=0), torch.stack(hits).sum(dim=0)
    recalls = (right_of_class / of_class)[of_class > 0]
    return Evaluation(
        float(loss) / len(labels),
        float(right_of_class.sum()) / len(labels),
        float(recalls.mean()),
        float(recalls.min()),
    )


def resolve_device(device: str = "auto") -> torch.device:
    """Return the device to train on; ``auto`` is the GPU if there is one."""
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise SettingsError(
            "torch sees no GPU for device='cuda'; choose device='auto', or install a CUDA build of "
            "torch and let the client have a GPU."
        )
    return torch.device(("cuda" if has_gpu else "cpu") if device == "auto" else device)


@contextmanager
def isolated_rng(device: torch.device, seed: int) -> Iterator[None]:
    """Seed torch's own random numbers, such as dropout's, and restore their state afterwards."""
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        # torch.manual_seed would seed every GPU, including those whose state is not restored.
        torch.default_generator.manual_seed(seed)
        if on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


@contextmanager
def limited_threads(num_threads: int | None) -> Iterator[None]:
    """Run torch with this number of CPU threads, and restore the old number afterwards.

    Sums are rounded differently with another number of threads, so only the same number repeats
    results to the last bit. None changes nothing.

    Examples
    --------
    >>> with limited_threads(1):
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
