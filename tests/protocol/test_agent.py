"""Tests of a node as agent: it makes keys and determines, and refuses the rest."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from protocol.federation import (
    Federation,
    dubhe,
    encrypted,
    session_state,
)
from protocol.node import (
    COUNTS,
    NUM_CLIENTS,
    SCALE,
    SETTINGS,
    federation,
    next_request,
    numbers,
    public_key_of,
    refuses,
)

from dubhe_flwr.errors import RefusedError, StaleMessageError
from dubhe_flwr.he import PublicKey, RecipientKey, generate_secret_key, open_sealed
from dubhe_flwr.protocol import CoordinatorState, Fields, SessionState, Stage
from dubhe_flwr.protocol.parameters import epoch_parameters, sealing_context

NO_SUM = r"^determine failed: DecryptionError\.$"
NOT_COVERED = r"^A sum does not cover the clients it is said to cover\.$"


class TestKeygen:
    """An agent makes a key for those who joined, itself among them."""

    def test_every_recipient_can_open_the_key(self) -> None:
        """Each of the sealed keys is the modulus's own, in the order of the recipients."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.KEYGEN)
        reply = nodes.handle(node_id, request)
        modulus, sealed = reply["modulus"], reply["sealed-keys"]
        assert isinstance(modulus, bytes)
        assert isinstance(sealed, bytes)
        assert len(modulus) == 64
        size = len(sealed) // NUM_CLIENTS
        for position, recipient in enumerate(nodes.ids):
            state = session_state(nodes, recipient)
            key = PublicKey.from_bytes(modulus, 512)
            layout = epoch_parameters(state.parameters).layout
            context = sealing_context(state.epoch, public_key_of(nodes, node_id), key, layout)
            own = sealed[position * size : (position + 1) * size]
            opened = open_sealed(own, RecipientKey.from_bytes(state.recipient_key), context, key)
            assert opened.public_key == key

    def test_a_key_is_made_anew_each_time(self) -> None:
        """No two requests get the same key, and the agent keeps none of it."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.KEYGEN)
        first = nodes.handle(node_id, request)
        second = nodes.handle(node_id, {**request, "sequence": 90})
        assert first["modulus"] != second["modulus"]
        assert session_state(nodes, node_id).secret_key == b""

    @pytest.mark.parametrize(
        ("spoil", "match"),
        [
            (lambda keys, own: [k for k in keys if k != own], "not distinct, or lack the agent"),
            (lambda keys, _own: [*keys, keys[0]], "not distinct, or lack the agent"),
            (lambda keys, own: [own, *[k for k in keys if k != own][:1]], "2 recipients are too"),
            (
                lambda keys, _own: [*keys, *(bytes([7, i]) * 16 for i in range(12))],
                "21 recipients are too few or too many",
            ),
            (lambda _keys, _own: [], "lack the agent"),
        ],
    )
    def test_unfit_recipients_are_refused(self, spoil: Any, match: str) -> None:
        """The agent seals to itself and to as many as a cohort has, each once."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.KEYGEN)
        joined = request["public-keys"]
        assert isinstance(joined, bytes)
        keys = [joined[start : start + 32] for start in range(0, len(joined), 32)]
        spoilt = b"".join(spoil(keys, public_key_of(nodes, node_id)))
        refuses(nodes, node_id, {**request, "public-keys": spoilt}, RefusedError, match)

    def test_smallest_and_largest_numbers_of_recipients(self) -> None:
        """A cohort of three and one of `max_clients` get a key."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.KEYGEN)
        own = public_key_of(nodes, node_id)
        others = [RecipientKey.generate().public_bytes for _ in range(19)]
        for sequence, number in ((80, 2), (81, 19)):
            keys = b"".join([own, *others[:number]])
            reply = nodes.handle(node_id, {**request, "public-keys": keys, "sequence": sequence})
            assert isinstance(reply["sealed-keys"], bytes)
            assert len(reply["sealed-keys"]) == (number + 1) * 80

    def test_an_unusable_public_key_harms_nobody_else(self) -> None:
        """Its owner gets bytes of the same size that never open; all others get the key."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.KEYGEN)
        joined = request["public-keys"]
        assert isinstance(joined, bytes)
        reply = nodes.handle(node_id, {**request, "public-keys": joined + bytes(32)})
        sealed = reply["sealed-keys"]
        assert isinstance(sealed, bytes)
        assert len(sealed) == 10 * 80
        assert len({sealed[start : start + 80] for start in range(0, 800, 80)}) == 10


class TestDetermine:
    """An agent decrypts few sums, each of them over enough clients."""

    def agent(self, **overrides: Any) -> tuple[Federation[CoordinatorState], int, Fields]:
        """Return a federation, its first agent and what that is asked."""
        nodes = federation(**overrides)
        node_id, request = next_request(nodes, Stage.DETERMINE)
        return nodes, node_id, request

    def with_sums(
        self, nodes: Federation[CoordinatorState], node_id: int, request: Fields, sums: Any
    ) -> Fields:
        """Return the request with other sums of four clients, one a row."""
        state = session_state(nodes, node_id)
        joined = b"".join(encrypted(state, "distribution", row) for row in sums)
        return {**request, "sums": joined} | numbers([len(sums)], [4] * len(sums))

    def test_the_best_of_each_round(self) -> None:
        """The agent answers with one index a round, the first of equal ones."""
        nodes, node_id, request = self.agent()
        even, skewed = [SCALE] * 5, [4 * SCALE, 0, 0, 0, SCALE]
        middle = [2 * SCALE, SCALE, SCALE, 0, SCALE]
        altered = self.with_sums(nodes, node_id, request, [skewed, even, even, middle])
        altered |= numbers([2, 2], [4] * 4)
        reply = nodes.handle(node_id, altered)
        assert reply["chosen"] == np.array([1, 0], dtype=">i8").tobytes()
        assert set(reply) == {"epoch", "stage", "sequence", "version", "chosen"}
        assert session_state(nodes, node_id).num_sums == 4

    def test_rounds_may_have_different_numbers_of_tries(self) -> None:
        """Each round is cut out where the one before it ends."""
        nodes, node_id, request = self.agent()
        even, skewed = [SCALE] * 5, [4 * SCALE, 0, 0, 0, SCALE]
        altered = self.with_sums(nodes, node_id, request, [skewed, skewed, even, even])
        altered |= numbers([1, 2, 1], [4] * 4)
        reply = nodes.handle(node_id, altered)
        assert reply["chosen"] == np.array([0, 1, 0], dtype=">i8").tobytes()

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            (numbers([4], [4, 4, 2, 4]), "A sum over 2 clients is too few"),
            (numbers([4], [1, 4, 4, 4]), "A sum over 1 clients is too few"),
            (numbers([4], [4, 4, 4, 3]), "^The tries of a round cover different numbers of"),
            (numbers([4], [5, 5, 5, 5]), NOT_COVERED),
            (numbers([2, 2], [4, 4, 5, 5]), NOT_COVERED),
            (numbers([4], [4, 4, 4, 21]), "^determine failed: SettingsError.$"),
            (numbers([3], [4] * 3), "The sums are not as many as announced"),
            (numbers([1] * 3, [4] * 3), "The sums are not as many as announced"),
            (numbers([5], [4] * 5), "The sums that this node decrypts in an epoch are used up"),
            (numbers([1] * 1000, [4] * 1000), "are used up"),
            ({"sums": b""}, "The sums are not as many as announced"),
            ({"sums": bytes(4 * 128)}, NO_SUM),
            ({"sums": b"\xff" * (4 * 128)}, NO_SUM),
        ],
    )
    def test_unfit_sums_are_refused(self, change: dict[str, Any], match: str) -> None:
        """Cohort, number and total of the sums are checked."""
        nodes, node_id, request = self.agent()
        refuses(nodes, node_id, {**request, **change}, RefusedError, match)

    @pytest.mark.parametrize(
        ("row", "match"),
        [
            ([SCALE, SCALE, SCALE, SCALE - 1, SCALE], NOT_COVERED),
            ([SCALE, SCALE, SCALE, SCALE - 1, SCALE + 1], NOT_COVERED),
            ([SCALE, SCALE, SCALE, SCALE + 1, SCALE], NOT_COVERED),
            ([SCALE, 0, 0, 0, SCALE], NOT_COVERED),
            ([0, 0, 0, 0, 0], NOT_COVERED),
            ([4 * SCALE + 1, 0, 0, 0, SCALE], NO_SUM),
        ],
    )
    def test_a_wrong_total_is_passed_over(self, row: list[int], match: str) -> None:
        """A client with a wrong p_l costs the tries it is in; those that add up are compared."""
        nodes, node_id, request = self.agent()
        skewed, middle = [4 * SCALE, 0, 0, 0, SCALE], [2 * SCALE, SCALE, SCALE, 0, SCALE]
        altered = self.with_sums(nodes, node_id, request, [skewed, row, middle, row])
        before = nodes.memories[node_id]
        assert nodes.handle(node_id, altered)["chosen"] == np.array([2], dtype=">i8").tobytes()
        assert session_state(nodes, node_id).num_sums == 4
        # In the second of two rounds none is left.
        nodes.memories[node_id] = before
        altered = self.with_sums(nodes, node_id, request, [skewed, middle, row, row])
        refuses(nodes, node_id, altered | numbers([2, 2], [4] * 4), RefusedError, match)

    @pytest.mark.parametrize(("first", "match"), [(0, NO_SUM), (1, NOT_COVERED)])
    def test_the_first_reason_is_told(self, first: int, match: str) -> None:
        """Where no sum of a round adds up, the refusal is that of the first one."""
        nodes, node_id, request = self.agent()
        rows = [[4 * SCALE + 1, 0, 0, 0, SCALE], [0, 0, 0, 0, 0]]
        altered = self.with_sums(nodes, node_id, request, [rows[first], rows[1 - first]])
        refuses(nodes, node_id, altered, RefusedError, match)

    def test_a_foreign_key_is_refused(self) -> None:
        """A sum under another key does not come out as a sum of distributions."""
        nodes, node_id, request = self.agent()
        sums = request["sums"]
        assert isinstance(sums, bytes)
        foreign = generate_secret_key(512).encrypt([1, 2, 3, 4])
        refuses(nodes, node_id, {**request, "sums": foreign}, RefusedError, "DecryptionError")

    @pytest.mark.parametrize(("num_clients", "budget"), [(9, 4), (8, 3), (7, 3)])
    def test_the_budget_is_below_half_the_clients(self, num_clients: int, budget: int) -> None:
        """Fewer sums than half the clients are decrypted in an epoch, at once or one by one."""
        nodes = dubhe(COUNTS[:num_clients], **SETTINGS)
        node_id, request = next_request(nodes, Stage.DETERMINE)
        sums = request["sums"]
        assert isinstance(sums, bytes)
        assert request["num-sums"] == numbers([budget], [])["num-sums"]
        size = len(sums) // budget
        for sequence in range(budget):
            one = {**request, "sums": sums[:size], "sequence": 50 + sequence}
            one |= numbers([1], [4])
            nodes.handle(node_id, one)
        one["sequence"] = 60
        refuses(nodes, node_id, one, RefusedError, "decrypts in an epoch are used up")

    def test_a_refused_sum_is_charged_like_any_other(self) -> None:
        """A server that asks for what does not add up gets no more answers for it."""
        nodes, node_id, request = self.agent()
        wrong = self.with_sums(nodes, node_id, request, [[SCALE, 0, 0, 0, SCALE]])
        for charged in range(1, 5):
            with pytest.raises(RefusedError, match="does not cover the clients"):
                nodes.handle(node_id, wrong)
            assert session_state(nodes, node_id).num_sums == charged
            refuses(nodes, node_id, wrong, StaleMessageError, "answered before")
            wrong["sequence"] = 50 + charged
        refuses(nodes, node_id, wrong, RefusedError, "are used up")

    def test_the_budget_that_was_announced(self) -> None:
        """The operator may set a lower one."""
        nodes, node_id, request = self.agent(max_sums_per_epoch=2)
        assert request["num-sums"] == numbers([2], [])["num-sums"]
        nodes.handle(node_id, request)
        refuses(nodes, node_id, {**request, "sequence": 60}, RefusedError, "are used up")

    def test_before_the_registry_no_sum_is_decrypted(self) -> None:
        """A node that does not know how many registered decrypts nothing."""
        nodes, node_id, request = self.agent()
        state = replace(session_state(nodes, node_id), num_registered=0)
        nodes.memories[node_id] = state.to_fields()
        refuses(nodes, node_id, request, RefusedError, "are used up")


def grouped(**overrides: Any) -> tuple[Federation[CoordinatorState], int, Fields]:
    """Return 36 nodes of which seven are to be chosen in two groups, and an agent's request."""
    options: dict[str, Any] = {"num_participants": 7, "determination": "grouped", "group_size": 3}
    options |= {"tries": 4, "max_clients": 40}
    nodes = dubhe(np.tile(COUNTS, (4, 1)), **SETTINGS | options | overrides)
    node_id, request = next_request(nodes, Stage.DETERMINE)
    return nodes, node_id, request


class TestDetermineGroups:
    """An agent names the groups that are best together."""

    def with_sums(
        self, state: SessionState, request: Fields, num_sums: list[int], rows: Any
    ) -> Fields:
        """Return the request with sums over as many clients as each row holds."""
        joined = b"".join(encrypted(state, "distribution", row) for row in rows)
        sizes = [sum(row[:-1]) // SCALE for row in rows]
        return {**request, "sums": joined} | numbers(num_sums, sizes)

    def test_the_best_groups_of_each_round(self) -> None:
        """Two of three and two of four groups of the right sizes, round by round."""
        nodes, node_id, request = grouped()
        state = session_state(nodes, node_id)

        def row(*clients: int) -> list[int]:
            return [*(SCALE * number for number in clients), SCALE * sum(clients)]

        first = [row(3, 0, 0, 0), row(1, 1, 1, 1), row(0, 2, 1, 0)]
        second = [row(0, 4, 0, 0), row(3, 0, 0, 0), row(1, 0, 1, 1), row(0, 2, 0, 2)]
        altered = self.with_sums(state, request, [3, 4], first + second)
        reply = nodes.handle(node_id, altered)
        assert reply["chosen"] == np.array([1, 2, 2, 3], dtype=">i8").tobytes()
        assert session_state(nodes, node_id).num_sums == 7

    @pytest.mark.parametrize(("local_skew", "chosen"), [(0.0, [0, 1]), (0.05, [1, 2])])
    def test_local_skew_has_its_price(self, local_skew: float, chosen: list[int]) -> None:
        """A little less even is better if the clients are balanced in themselves."""
        nodes, node_id, request = grouped(local_skew=local_skew)
        state = session_state(nodes, node_id)
        share = 3 * SCALE // 4
        one_sided = [share, share, share, share, 3 * SCALE]
        balanced = [share + 1000, share, share, share - 1000, share]
        rows = [one_sided, [SCALE] * 5, balanced]
        altered = self.with_sums(state, request, [3], rows)
        reply = nodes.handle(node_id, altered)
        assert reply["chosen"] == np.array(chosen, dtype=">i8").tobytes()

    @pytest.mark.parametrize(
        ("sizes", "match"),
        [
            ([3, 3, 3], "^determine failed: SettingsError.$"),
            ([4, 4, 4], "^determine failed: SettingsError.$"),
            ([5, 5, 2], "A sum over 2 clients is too few"),
            ([5, 6, 7], "^determine failed: SettingsError.$"),
            ([4], "^There are fewer groups than are wanted.$"),
        ],
    )
    def test_groups_that_do_not_make_up_k_are_refused(self, sizes: list[int], match: str) -> None:
        """Seven clients need a group of three and one of four."""
        nodes, node_id, request = grouped()
        rows = [[size * SCALE, 0, 0, 0, SCALE] for size in sizes]
        state = session_state(nodes, node_id)
        altered = self.with_sums(state, request, [len(sizes)], rows)
        refuses(nodes, node_id, altered, RefusedError, match)

    def test_a_group_with_a_wrong_total_is_passed_over(self) -> None:
        """The others make up K, if there are enough of each size."""
        nodes, node_id, request = grouped()
        state = session_state(nodes, node_id)
        wrong = [2 * SCALE, SCALE, SCALE, SCALE - 1, SCALE]
        three, four = [3 * SCALE, 0, 0, 0, SCALE], [0, 4 * SCALE, 0, 0, SCALE]
        rows = [wrong, three, four]
        joined = b"".join(encrypted(state, "distribution", row) for row in rows)
        altered = {**request, "sums": joined} | numbers([3], [4, 3, 4])
        before = nodes.memories[node_id]
        assert nodes.handle(node_id, altered)["chosen"] == np.array([1, 2], dtype=">i8").tobytes()
        assert session_state(nodes, node_id).num_sums == 3
        nodes.memories[node_id] = before
        altered |= numbers([3], [4, 3, 5])
        refuses(nodes, node_id, altered, RefusedError, "There are fewer groups than are wanted")

    def test_more_groups_than_any_memory_holds_are_refused(self) -> None:
        """A server may announce any K; the agent makes no array of that length."""
        nodes, node_id, request = grouped()
        state = session_state(nodes, node_id)
        parameters = replace(state.parameters, num_participants=2**62)
        nodes.memories[node_id] = replace(state, parameters=parameters).to_fields()
        refuses(nodes, node_id, request, RefusedError, "There are fewer groups than are wanted")

    def test_the_budget_counts_each_group(self) -> None:
        """Seventeen sums of 36 clients, in whatever portions."""
        nodes, node_id, request = grouped()
        state = session_state(nodes, node_id)
        pair = [[3 * SCALE, 0, 0, 0, SCALE], [0, 4 * SCALE, 0, 0, SCALE]]
        altered = self.with_sums(state, request, [8, 8], pair * 8)
        nodes.handle(node_id, altered)
        two = self.with_sums(state, request, [2], pair) | {"sequence": 60}
        refuses(nodes, node_id, two, RefusedError, "decrypts in an epoch are used up")

    def test_tries_of_different_sizes_are_refused(self) -> None:
        """Where tries are determined, all of a round cover as many clients."""
        nodes = federation()
        node_id, request = next_request(nodes, Stage.DETERMINE)
        state = session_state(nodes, node_id)
        rows = [[SCALE] * 5, [3 * SCALE, SCALE, SCALE, 0, SCALE]]
        altered = self.with_sums(state, request, [2], rows)
        refuses(nodes, node_id, altered, RefusedError, "tries of a round cover different numbers")
        # In different rounds they may.
        altered = self.with_sums(state, request, [1, 1], rows)
        assert nodes.handle(node_id, altered)["chosen"] == bytes(16)
