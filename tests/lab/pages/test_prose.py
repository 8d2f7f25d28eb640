"""Each measured number in the pages' prose is held by results.

`SAID` has the sentences of each page whose numbers `said` computes. `TESTED` has passages whose
numbers another test computes or bounds, or that quote the paper. Each passage must be on its page,
and a measured number outside of them fails.

A number is measured if it has a decimal point or a unit (see `MEASURED`). This test cannot see
other whole numbers ("20 rounds"), fractions in words ("a third"), claims without numbers, and the
captions of tables. It does not know whether the test that `TESTED` names still covers a number, and
it does not read the reference, whose numbers are settings and formats.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import pytest
import said
from docs.pages import PAGES, ROOT, name_of

SAID: Final[dict[str, tuple[Callable[[], Iterable[str]], ...]]] = {
    "README.md": (said.readme,),
    "docs/side_by_side.md": (said.digits, said.natural, said.larger),
    "docs/noise.md": (said.noise,),
    "docs/performance.md": (said.performance, said.bounds),
    "docs/explanation/prices.md": (said.prices,),
    "docs/explanation/attacks.md": (said.attacks,),
    "docs/explanation/guarantees.md": (said.guarantees,),
    "docs/explanation/threat_model.md": (said.remembered,),
    "docs/howto/my_federation.md": (said.costs, said.verdicts),
    "docs/reproduction.md": (said.reproduction,),
    "docs/explanation/departures.md": (said.encryption,),
    "docs/explanation/paper.md": (said.paper,),
    "apps/deployment/README.md": (said.exchanges,),
    "docs/howto/choose_settings.md": (said.agents, said.coverage, said.local_skew),
    "docs/howto/deploy.md": (said.exchanges,),
}
PAPER: Final = "the paper"
SETTING: Final = "a setting"
ADVERSARY: Final = "tests/adversary/test_"
PAGE: Final = "tests/lab/pages/test_"
TESTED: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "apps/deployment/README.md": {
        SETTING: ("Every 30 seconds",),
    },
    "docs/explanation/paper.md": {
        PAPER: (
            "[doi:10.1145/3472456.3473513]",
            "**Registration** (5.1,",
            "**Participation** (5.2,",
            "**Determination** (5.3)",
            "up to 64.4 % below random selection's",
        ),
    },
    "docs/explanation/prices.md": {
        "tests/core/prices/test_numbers.py::test_more_volunteers_lower_the_noise_only_so_far": (
            "never less than 5/3 times as large",
        ),
    },
    "docs/explanation/guarantees.md": {
        f"{ADVERSARY}liars.py::test_two_nodes_that_spoil_every_registration": (
            "spoil all seven registrations of a round with a probability of 0.15",
        ),
    },
    "docs/explanation/threat_model.md": {
        f"{ADVERSARY}active_server.py::test_an_active_server_reads_any_client_in_one_epoch": (
            "any client's labels with 24 answers from agents",
        ),
        f"{ADVERSARY}prices.py::test_a_server_that_chooses_its_questions_by_the_answers": (
            "The best known attack has 0.38 to 0.48 times the error of a blind guess",
        ),
        f"{ADVERSARY}prices.py::test_the_same_server_with_few_classes_more_skew_or_empty_bins": (
            "**0.05 with ten bins of which only two are used**",
        ),
        "tests/protocol/rules/test_prices.py::test_few_classes_have_a_blur": (
            "noise with a standard deviation of 0.6 / C",
        ),
        f"{ADVERSARY}updates.py::test_what_updates_tell": (
            "with 0.05 times the error of a blind guess",
        ),
    },
    "docs/explanation/attacks.md": {
        f"{ADVERSARY}prices.py::test_a_change_of_a_tenth_brings_three_more_questions": (
            "has 0.53 with ten classes, and 0.31 after one such change",
        ),
        f"{ADVERSARY}prices.py::test_samples_that_are_added_hardly_change_what_a_node_uses": (
            "uses 1.0 vectors of label counts on average with two classes, and 1.6 with ten",
            "it uses 2.0, or with ten classes 9.8",
        ),
        f"{ADVERSARY}agents.py::test_what_an_honest_agent_sees_of_a_client": (
            "is 3 % closer than the mean of all clients (20 tries), or 32 % closer (199 sums)",
        ),
        f"{ADVERSARY}price_sums.py::test_noise_hides_a_client": (
            "the members' noise. They have 0.92 of the error of a guess without any sum",
            "these members' noise. They have 0.76 of that error",
        ),
        f"{ADVERSARY}price_sums.py::test_the_fewest_nodes_with_prices": (
            "0.7 if the server asks only 13 nodes for 12 participants",
        ),
        f"{ADVERSARY}prices.py::test_a_server_that_steers_prices_makes_all_sums_tell_more": (
            "0.54 of that error, and name the most frequent class of 73 % of the clients",
            "0.74, 53 %, and 93 % of the clients that have a single class",
        ),
        f"{ADVERSARY}prices.py::test_six_servers_that_steer_prices": (
            "In six trials, it has 0.50 to 0.55 of the error of a guess without any sum",
            "the most frequent class of 69 to 77 % of the nodes (22 to 35 % without any sum)",
        ),
        f"{ADVERSARY}prices.py::test_a_server_that_chooses_its_questions_by_the_answers": (
            "It then has 0.44 to 0.47, and finds the most frequent class of 77 to 86 %",
            "reads this node's sums, and has 0.38 to 0.41, and 80 to 82 %",
            "they have 0.30 to 0.35, and name the class of 83 to 87 %",
        ),
        f"{ADVERSARY}prices.py::test_the_more_classes_the_less_noise_hides": (
            "they are 0.34 and 86 %, or with the noise of all three members 0.52 and 75 %",
        ),
        f"{ADVERSARY}prices.py::test_the_same_server_with_few_classes_more_skew_or_empty_bins": (
            "this server has 0.45 with two classes, 0.48 with three and 0.41 with five",
            "it has 0.42, 0.43 and 0.40",
            "about 0.1 higher with two classes",
            "it has 0.29 with two classes and 0.19 with ten",
            "**it has 0.05**. With nine, of which two are used, it has 0.18",
        ),
        f"{ADVERSARY}prices.py::test_three_questions_about_few_classes": (
            "three orders alone would get 0.17 or less",
        ),
        f"{ADVERSARY}prices.py::test_what_draws_tell_about_labels": (
            "has 0.95 of the error of a guess without draws",
            "with five, three, two classes 0.93, 0.89, 0.65. 1000 draws lower this by 0.03",
        ),
        f"{ADVERSARY}prices.py::test_twenty_sets_of_random_orders": (
            "has 0.46, in a single trial",
        ),
        f"{ADVERSARY}prices.py::test_what_draws_tell": ("1.2, 1.6, 2.6 bits about the node",),
        f"{ADVERSARY}prices.py::test_what_draws_tell_a_server_that_changes_k": (
            "or 1.6, 2.0, 2.8 if it changes K halfway",
        ),
        f"{ADVERSARY}prices.py::test_random_selection_is_at_three_fifths": (
            "at distance 0.22 from uniform, as without the lie (0.617 without prices)",
        ),
        f"{ADVERSARY}prices.py::test_numbers_in_range_that_are_nobodys": (
            "0.51 with the worst of the lies tried",
        ),
        f"{ADVERSARY}prices.py::test_a_client_that_adds_sixteen_clients_of_each_rare_class": (
            "raises it to 0.95, **worse than without prices**",
        ),
        f"{ADVERSARY}prices.py::test_a_client_that_multiplies_its_numbers": (
            "by 3 raises the distance to 0.27, because",
            "by 10, to 0.617: **the gain is gone",
        ),
        f"{ADVERSARY}active_server.py::test_an_active_server_reads_any_client_in_one_epoch": (
            "any client's labels with 24 answers from agents",
        ),
        f"{ADVERSARY}liars.py::test_a_client_that_always_says_yes": (
            "two of 30 rounds trains in 26 with the paper's rule, and in 16 with prices",
            "it trains in all 30",
        ),
        f"{ADVERSARY}liars.py::test_ten_clients_that_crowd_the_others_out": (
            "Ten such clients have **98 % of the places**",
        ),
        f"{ADVERSARY}liars.py::test_one_that_spoils_its_label_distribution_as_well": (
            "at 0.50 instead of 0.38 with the paper's rule, 0.28 instead of 0.23 with prices",
        ),
        SETTING: ("rho 10, EMD_avg 1.5",),
    },
    "docs/howto/my_federation.md": {
        f"{PAGE}verdict.py::test_the_page_has_the_table_of_the_measurements": (
            "Dubhe lost four points",
        ),
        SETTING: ("0.5, 1.5 or 2 times your number of participants",),
    },
    "docs/howto/operations.md": {
        SETTING: ("Flower takes up to 60 s to notice that a node was killed",),
    },
    "docs/howto/what_a_node_tells.md": {
        f"{ADVERSARY}prices.py::test_a_server_that_steers_prices_makes_all_sums_tell_more": (
            "name this class in 93 % of all cases",
        ),
        f"{ADVERSARY}prices.py::test_the_more_classes_the_less_noise_hides": (
            "one of any node in 75 % of all cases, and in 86 % with that help",
        ),
    },
    "docs/noise.md": {
        "tests/core/prices/test_blur.py::test_what_a_blur_costs": (
            "EMD 0.3, the volunteers' data is 0.12 from uniform instead of 0.03",
            "EMD 0.5, it is 0.07 instead of 0.03; with five and EMD 0.9, the blur costs",
        ),
        f"{ADVERSARY}prices.py::test_no_noise_is_too_large_for_a_sum_without_the_client": (
            "the largest noise that a member can draw (12.1 deviations)",
            "with a probability of up to 0.0001 for 100 classes",
        ),
        f"{ADVERSARY}price_sums.py::test_without_noise_a_client_shows": (
            "who knows all other clients has an error below 0.1",
        ),
        SETTING: ("Each registration has 5 % new clients",),
    },
    "docs/performance.md": {
        f"{PAGE}performance.py::test_the_page_tells_how_rounds_on_real_nodes_compare": (
            "or 8 % longer with the paper's rule",
            "round waited more than 0.07 s for its clients, and half of them no more than 0.01 s",
            "rounds 2 to 10 (18.3 s); the others take 17.0 s",
        ),
    },
    "docs/reproduction.md": {
        PAPER: (
            "thresholds for ten classes (0.7 and 0.1)",
            "The paper reports 64.4 %",
            "*The distance falls by 64.4 %.*",
            "sigma = 0.7 and 0.1",
            "MNIST-10/1.5 at full scale",
        ),
        SETTING: (
            "runs from 0 % for random selection to 100 % for greedy selection",
            "runs from 0 % for one try to 100 % for greedy selection",
        ),
    },
    "docs/side_by_side.md": {
        "tests/lab/paper/test_when.py::test_gains_are_certain_to_half_a_point": (
            "the standard error with five is about half a point or larger",
        ),
        SETTING: (
            "### SGD with server momentum 0.9",
            "the rounds to 90 % are accurate",
        ),
    },
    "docs/verdict.md": {
        f"{PAGE}verdict.py::test_the_page_has_the_studys_formula": (
            "(0.5 + EMD_avg)",
            "ten rounds + 1.1",
        ),
        f"{PAGE}verdict.py::test_the_page_has_the_table_of_the_measurements": (
            "predicts 2.0 points on average, and Dubhe gained 1.7",
            "That cost seven points",
        ),
        f"{PAGE}verdict.py::test_the_page_tells_what_the_formula_predicts_on_mnist": (
            "There the formula predicts 11 points",
        ),
        f"{PAGE}verdict.py::test_the_page_tells_what_mnist_gained": (
            "Dubhe gained 8 with SGD, 4 with server momentum and 22 with Adam",
        ),
        "tests/lab/experiments/test_my_federation.py::test_a_study_predicts_the_encrypted_run": (
            "They differ by at most 10 %, or by 0.01 where that is more",
        ),
    },
}
UNIT: Final = r" ?(?:%|points?\b|times as|[mu]?s\b|seconds?\b|minutes?\b|hours?\b|[KMGk]?B\b)"
NUMBER: Final = r"(?<![\w.-])[\d,]*\d(?:\.\d+)?"
MEASURED: Final = re.compile(
    r"(?<![\w.-])\d+\.\d+(?![\w.]*\d)"
    rf"|(?:{NUMBER}(?: ?%)?(?:,| to| or| and) )*{NUMBER}{UNIT}"
    rf"|\b(?:half a|{'|'.join(said.WORDS)}) points?\b"
)
HIDDEN: Final = re.compile(
    r"`[^`]*`|\]\([^)]*\)|\b\w+ ?= ?[\d.e-]+|"
    r"\b(?:EMD|rho|Flower|Python|version|GPL-|Apache-|Artistic-|section) ?[\d.]+"
)
"""Code, the targets of links, settings, and versions."""
READ: Final = [
    page
    for page in PAGES
    if name_of(page) == "README.md" or page.parent != ROOT
    if page.parent.name != "reference"
]
CAPTIONED: Final = [table for of in said.results("performance/*.json") for table in of["tables"]]


def prose(page: Path) -> str:
    """Return a page on one line, without code and tables, but with rows that name a test."""
    text = page.read_text("utf-8")
    for table in CAPTIONED:
        text = text.replace(table, "")
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.DOTALL | re.MULTILINE)
    return " ".join(re.sub(r"^\|(?!.*test_\w+\.py).*$", "", text, flags=re.MULTILINE).split())


@pytest.mark.parametrize("page", READ, ids=name_of)
def test_results_explain_each_number(page: Path) -> None:
    """Passages that quote results are on their page, and all measured numbers are in them."""
    name, text = name_of(page), prose(page)
    computed = (passage for sentences in SAID.get(name, ()) for passage in sentences())
    held = []
    for passage in [*computed, *(each for of in TESTED.get(name, {}).values() for each in of)]:
        begin = text.find(passage)
        assert begin >= 0, f"{name} does not say what results say: {passage!r}"
        held.append(range(begin, begin + len(passage)))
    seen = HIDDEN.sub(lambda found: " " * len(found[0]), text)
    loose = [
        f"{found[0]!r} in {text[max(0, found.start() - 60) : found.end() + 40]!r}"
        for found in MEASURED.finditer(seen)
        if not any(found.start() in of and found.end() - 1 in of for of in held)
    ]
    assert not loose, f"nothing holds these numbers of {name}: " + "\n".join(loose)


@pytest.mark.parametrize("source", sorted({source for of in TESTED.values() for source in of}))
def test_the_named_tests_exist(source: str) -> None:
    """Each source is a test (`module::name`), the paper or a setting."""
    module, _, name = source.partition("::")
    assert source in (PAPER, SETTING) or re.search(
        rf"def {name}\(", (ROOT / module).read_text("utf-8")
    )
