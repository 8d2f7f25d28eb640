"""The table and the sentence for the terminal agree with the results."""

from dataclasses import replace
from io import StringIO

from comparison_results import RESULTS
from rich.console import Console

from dubhe_lab.report.table import Table
from dubhe_lab.report.terminal import summary_sentence, summary_table


def shown(table: Table) -> str:
    """Return a table as an 80-column terminal shows it, and check that nothing is cut off."""
    screen = StringIO()
    Console(file=screen, width=80).print(table.for_terminal())
    assert "…" not in screen.getvalue()
    return screen.getvalue()


def cells(table: Table, method: str) -> list[str]:
    """Return the cells of a method's row, which is one line."""
    return next(line for line in shown(table).splitlines() if method in line).split()


def test_the_table_of_a_comparison() -> None:
    """The table shows all methods and figures, even large ones."""
    large = {
        name: replace(method, training_seconds=100_000.0, selection_bytes_up=4_000_000_000)
        for name, method in RESULTS.methods.items()
    }
    table = summary_table(replace(RESULTS, methods=large))
    dubhe = RESULTS.methods["dubhe"]
    wanted = [f"{dubhe.final_accuracy:.1%}", "12", f"{dubhe.mean_emd:.3f}", "1.40", "97%", "0.05"]
    assert cells(table, "Dubhe") == ["Dubhe", *wanted, "2500.00", "100000", "yes/no"]
    assert cells(table, "random")[-1] == "nothing"
    assert cells(table, "greedy")[::9] == ["greedy", "labels"]
    for text in ("(last 5)", "to 58%", "digits-10/1.5, 150 clients"):
        assert text in shown(table)


def test_the_table_counts_evaluations_where_there_are_any() -> None:
    """Evaluations replace the training time, so that the table fits 80 columns."""
    asking = replace(RESULTS.methods["greedy"], evaluations=1600)
    table = summary_table(replace(RESULTS, methods={**RESULTS.methods, "powd": asking}))
    assert cells(table, "Power-of-Choice")[-3:] == ["40", "0", "losses"]
    assert cells(table, "Dubhe")[-3:] == ["0", "0", "yes/no"]
    assert "Train" not in shown(table)
    assert "Train" in shown(summary_table(RESULTS))


def test_the_sentence_compares_dubhe_with_random() -> None:
    """The sentence gives both accuracies and their signed difference."""
    sentence = summary_sentence(RESULTS)
    assert f"{RESULTS.methods['dubhe'].final_accuracy:.1%} over the last 5 evaluations" in sentence
    assert "(+" in sentence
    swapped = {"random": RESULTS.methods["dubhe"], "dubhe": RESULTS.methods["random"]}
    assert "(-" in summary_sentence(replace(RESULTS, methods=swapped))
    one = {name: replace(m, accuracy=(0.1, 0.5)) for name, m in RESULTS.methods.items()}
    assert "50.0% in the last round" in summary_sentence(replace(RESULTS, methods=one))


def test_without_both_the_sentence_names_the_best_method() -> None:
    """Without Dubhe or random selection, the sentence names the best method."""
    alone = {name: RESULTS.methods[name] for name in ("random", "greedy")}
    assert summary_sentence(replace(RESULTS, methods=alone)).startswith(
        "The best method was greedy"
    )
