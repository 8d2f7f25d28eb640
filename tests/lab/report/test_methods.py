"""What reports say about a method comes from one table."""

from dubhe_lab.report.methods import METHODS, SEEING_LOSSES, method_label, method_looks


def test_a_method_looks_the_same_in_every_figure() -> None:
    """A known method looks the same in every figure, and all methods in a figure differ."""
    together = method_looks(["a", "random", "b", "dubhe", "greedy"])
    assert len({look["color"] for look in together.values()}) == 5
    assert together["dubhe"] == method_looks(["dubhe"])["dubhe"]
    assert together["dubhe"]["color"] == "#0072B2"


def test_a_variant_keeps_its_name() -> None:
    """A variant's label continues after the comma, and an unknown name is its own label."""
    assert method_label("dubhe-paper, H=10") == "Dubhe (paper), H=10"
    assert method_label("MNIST-2/0.5") == "MNIST-2/0.5"
    assert set(SEEING_LOSSES) < set(METHODS)
