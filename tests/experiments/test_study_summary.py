"""Table and sentence of a study say what its results say."""

from dataclasses import replace
from io import StringIO

from rich.console import Console
from study_results import STUDY

from dubhe_flwr.experiments import study_sentence, study_table


def test_the_table_fits_a_terminal_and_names_all_methods() -> None:
    """Nothing is cut off at 80 columns."""
    screen = StringIO()
    Console(file=screen, width=80).print(study_table(STUDY))
    shown = screen.getvalue()
    assert "…" not in shown
    for name in ("random", "Dubhe", "greedy"):
        assert name in shown
    row = next(line for line in shown.splitlines() if "Dubhe" in line)
    dubhe = STUDY.methods["dubhe"]
    figures = [f"{value:.3f}" for value in (dubhe.mean_emd, dubhe.sd_emd, dubhe.bias)]
    assert row.split() == ["Dubhe", *figures, "1.40", "75%", "123", "1.5"]


def test_early_coverage_is_shown_where_there_are_so_many_rounds() -> None:
    """Fewer than 100 rounds tell nothing of 100."""
    dubhe = STUDY.methods["dubhe"]
    long = replace(dubhe, emd=dubhe.emd * 3, local_emd=dubhe.local_emd * 3)
    for method, shown in ((dubhe, False), (long, True)):
        screen = StringIO()
        Console(file=screen, width=80).print(study_table(replace(STUDY, methods={"dubhe": method})))
        assert ("50%" in screen.getvalue()) is shown


def test_the_sentence_compares_the_methods() -> None:
    """Distances and coverage, and nothing of messages that were not sent."""
    assert study_sentence(STUDY) == (
        "Over 40 rounds the mean distance of the selected data from uniform was 0.23 with Dubhe, "
        "0.65 at random and 0.05 with the oracle; Dubhe selected 75% of the clients, the oracle "
        "75%."
    )


def test_what_travelled_is_told() -> None:
    """Messages and megabytes of Dubhe, where there are any."""
    sent = replace(STUDY.methods["dubhe"], messages=1234, bytes_up=2_500_000, bytes_down=3_000_000)
    sentence = study_sentence(replace(STUDY, methods={**STUDY.methods, "dubhe": sent}))
    assert sentence.endswith(
        "; Dubhe took 1234 messages with their replies, 2.5 MB up and 3.0 MB down."
    )
