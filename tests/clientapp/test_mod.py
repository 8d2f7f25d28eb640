"""Tests of the client side, as a mod and as registered handlers."""

from typing import Any

import pytest
from apis import (
    NUM_CLASSES,
    message_client_app,
    node_context,
    numpy_client_app,
)
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from dubhe_flwr.adapter._compat import new_run
from dubhe_flwr.adapter.messages import STAGES, message_type, to_records
from dubhe_flwr.clientapp import DubheMod, register_dubhe
from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.protocol.node.memory import Memory
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.protocol.wire.envelope import Envelope, read_reply
from dubhe_flwr.protocol.wire.messages import HelloReply, HelloRequest
from dubhe_flwr.rules import Paper

HELLO = Envelope(bytes(16), "hello", 1)
JOINING = Envelope(b"e" * 16, "join", 1)
RULE = Paper((1, 2, NUM_CLASSES), {1: 0.7, 2: 0.2})
JOIN = JoinRequest(RULE.name, RULE.to_json(), 6, 512, 100, 3)


@pytest.fixture(autouse=True)
def run_id() -> None:
    """Let messages be created outside a run."""
    new_run(17)


def request(fields: Any, stage: str = "hello") -> Message:
    """Return a custom message with these fields."""
    return Message(to_records(fields), dst_node_id=99, message_type=message_type(stage))


def answer(app: ClientApp, node: Context, stage: str = "hello") -> Any:
    """Return what an app answers to a greeting, or to a request to join."""
    header = JOINING if stage == "join" else HELLO
    reply = app(request(header.seal(JOIN if stage == "join" else HelloRequest()), stage), node)
    return read_reply(header, dict(reply.content.config_records["dubhe"]))


@pytest.mark.parametrize("app", [numpy_client_app(), message_client_app()])
def test_both_kinds_of_app_answer_every_stage(
    app: ClientApp, caplog: pytest.LogCaptureFixture
) -> None:
    """A refusal is an error reply that names no secret and changes nothing."""
    node = node_context()
    assert answer(app, node) == HelloReply(alias="3", willing=True)
    del node.node_config["partition-id"]
    assert answer(app, node).alias == "99"
    for stage in STAGES:
        assert app(request({"nonsense": 1}, stage), node).has_error()
    caplog.clear()
    header = Envelope(bytes(16), "determine", 1)
    reply = app(request(header.seal(HelloRequest()), "determine"), node)
    assert reply.error.code == 2
    assert "DetermineRequest" in str(reply.error.reason)
    assert caplog.messages == [f"dubhe: refused: {reply.error.reason}"]
    empty = Message(RecordDict(), dst_node_id=99, message_type=message_type("join"))
    assert "no record" in str(app(empty, node).error.reason)
    assert not node.state.config_records


def test_state_lives_in_the_context() -> None:
    """A replay is refused; a session that the node cannot read costs it the epoch, no more."""
    app, node = numpy_client_app(), node_context()
    assert answer(app, node, "join").status == 0
    assert Memory.from_fields(node.state.config_records["dubhe"]).epoch == b"e" * 16
    assert app(request(JOINING.seal(JOIN), "join"), node).has_error()
    damaged, older = ConfigRecord({"sequence": 1}), ConfigRecord({"session": b"{}"})
    for left in (damaged, older):
        node.state["dubhe"] = left
        assert answer(app, node, "join").status == 0


def test_other_messages_pass_through() -> None:
    """All other messages reach the ClientApp unchanged, even an evaluation with a config."""
    seen: list[Message] = []

    def call_next(message: Message, _context: Context) -> Message:
        seen.append(message)
        return Message(RecordDict(), reply_to=message)

    mod = DubheMod(lambda _context: [1, 2, 3, 4])
    for kind in ("train", "evaluate", "query", "train.custom"):
        content = RecordDict({"config": ConfigRecord({"stage": "join", "lr": 0.1})})
        message = Message(content, dst_node_id=99, message_type=kind)
        assert not mod(message, node_context(), call_next).has_error()
        assert seen[-1] is message


def test_mods_of_an_app_with_handlers_do_not_see_dubhe() -> None:
    """Mods still see all other messages, even for handlers registered later."""
    seen: list[str] = []

    def watch(message: Message, node: Context, call_next: Any) -> Message:
        seen.append(message.metadata.message_type)
        reply: Message = call_next(message, node)
        return reply

    app = ClientApp(mods=[watch])
    register_dubhe(app, lambda _context: [1, 2, 3, 4], min_key_bits=512)
    app.train()(lambda message, _context: Message(RecordDict(), reply_to=message))
    assert answer(app, node_context()).willing
    assert answer(app, node_context(), "join").status == 0
    assert seen == []
    app(Message(RecordDict(), dst_node_id=99, message_type="train"), node_context())
    assert seen == ["train"]


def test_a_daily_limit_has_an_error_code_of_its_own() -> None:
    """The error code tells the server that the node refuses only today, not this epoch."""
    app, node = numpy_client_app(simulated=False, max_epochs_per_day=1), node_context()
    answer(app, node, "join")
    again = Envelope(b"f" * 16, "join", 2).seal(JOIN)
    assert app(request(again, "join"), node).error.code == 6


def test_simulated_may_depend_on_the_context(caplog: pytest.LogCaptureFixture) -> None:
    """If the function fails, the server learns only that the node refused; the log says where."""
    mod = DubheMod(lambda _c: [1], simulated=lambda c: c.run_config["secret-path"])  # type: ignore[arg-type,return-value]
    node = node_context()
    with pytest.raises(RefusedError, match="its log says why") as caught:
        mod._is_simulated(node)
    assert "secret-path" not in f"{caught.value}{caplog.text}"
    assert "simulated raised KeyError in " in caplog.text
    node.run_config["secret-path"] = "false"
    with pytest.raises(RefusedError, match="its log says why"):
        mod._is_simulated(node)
    assert "dubhe: simulated returned neither True nor False." in caplog.messages
    for answered in (True, False):
        node.run_config["secret-path"] = answered
        assert mod._is_simulated(node) == answered


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"label_counts": [120, 3, 40]}, "must be a function of the Context"),
        ({"label_counts": lambda: [120, 3, 40]}, "must be a function of the Context"),
        ({"simulated": "no"}, "simulated='no' must be True, False or a function"),
        ({"exact_sums": "false"}, "exact_sums='false' must be True or False"),
        ({"willing": lambda _context: True}, "willing must be a function of the Context and a"),
        ({"willing": True}, "willing must be a function of the Context and a round"),
        ({"min_cohort": 0}, "min_cohort=0 must be a whole number of at least 1"),
        ({"min_cohort": True}, "min_cohort=True must be a whole number of at least 1"),
        ({"min_key_bits": "2048"}, "min_key_bits='2048'"),
        ({"min_key_bits": 4096, "max_key_bits": 3072}, "min_key_bits=4096 must be at most max_key"),
    ],
)
def test_unfit_arguments_are_refused_at_once(given: dict[str, Any], message: str) -> None:
    """Unfit arguments are refused when the app is created, and the error says what to do."""
    with pytest.raises(SettingsError, match=message):
        DubheMod(**{"label_counts": lambda _context: [1], **given})


def test_register_dubhe_explains_wrong_arguments() -> None:
    """The error says what to give instead; label_counts may be positional."""
    register_dubhe(ClientApp(), lambda _context: [1, 2])
    register_dubhe(ClientApp(), label_counts=lambda _context: [1, 2])
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (ServerApp(), {}, "ServerApp is not a ClientApp; pass the app as the first argument"),
        (numpy_client_app(), {}, r"pass mods=\[DubheMod\(label_counts\)\]"),
        (ClientApp(), {"wiling": None}, "register_dubhe takes no wiling; did you mean willing"),
    ]
    for wrong, options, sentence in cases:
        with pytest.raises(SettingsError, match=sentence):
            register_dubhe(wrong, lambda _context: [1, 2], **options)
