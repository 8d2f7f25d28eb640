"""What reports say about a method comes from one table."""

from dubhe_lab.report.methods import method_looks


def test_a_method_looks_the_same_in_every_figure() -> None:
    """A known method looks the same in every figure, and all methods in a figure differ."""
    together = method_looks(["a", "random", "b", "dubhe", "greedy"])
    assert len({look["color"] for look in together.values()}) == 5
    assert together["dubhe"] == method_looks(["dubhe"])["dubhe"]
    assert together["dubhe"]["color"] == "#0072B2"
