"""Table and sentence say what the results say."""

from dataclasses import replace
from io import StringIO

from comparison_results import RESULTS
from rich.console import Console

from dubhe_flwr.experiments import summary_sentence, summary_table


def test_the_table_fits_a_terminal_and_names_all_methods() -> None:
    """Nothing is cut off at 80 columns."""
    large = {
        name: replace(method, bytes_up=4_000_000_000, bytes_down=5_000_000_000)
        for name, method in RESULTS.methods.items()
    }
    screen = StringIO()
    Console(file=screen, width=80).print(summary_table(replace(RESULTS, methods=large)))
    shown = screen.getvalue()
    assert "…" not in shown
    for name in ("random", "Dubhe", "greedy"):
        assert name in shown
    row = next(line for line in shown.splitlines() if "Dubhe" in line)
    dubhe = RESULTS.methods["dubhe"]
    wanted = [f"{dubhe.final_accuracy:.1%}", f"{dubhe.mean_emd:.3f}", "1.40", "97%", "2.0", "3.0"]
    assert row.split() == ["Dubhe", *wanted, "4000.0", "5000.0"]


def test_the_sentence_compares_dubhe_with_random() -> None:
    """Both accuracies and their difference, whichever is larger."""
    sentence = summary_sentence(RESULTS)
    assert f"{RESULTS.methods['dubhe'].final_accuracy:.1%}" in sentence
    assert "(+" in sentence
    swapped = {"random": RESULTS.methods["dubhe"], "dubhe": RESULTS.methods["random"]}
    assert "(-" in summary_sentence(replace(RESULTS, methods=swapped))


def test_without_the_two_it_names_the_best() -> None:
    """There is always a sentence."""
    alone = {name: RESULTS.methods[name] for name in ("random", "greedy")}
    assert summary_sentence(replace(RESULTS, methods=alone)).startswith("Best was greedy")
