"""The whole chat under a scripted language model on a real merged random base: launches, errors, retries, interrupts, history, caches."""

import itertools
import json

import numpy as np
import pytest
from reference_engine import ReferenceEngine
from scripted import Log, Script, calc

from qgpu.chat.calls import ToolCall
from qgpu.chat.device import Device
from qgpu.chat.open import open_session
from qgpu.chat.session import MOST_TRIES
from qgpu.chat.tools import written
from qgpu.errors import UsageError
from qgpu.machine.description import ARTICLE
from qgpu.merge import load
from qgpu.qwen.chat import render
from qgpu.qwen.text import Text

DOUBLE = "__global__ void twice(const int *a, int *out) {\n    int i = threadIdx.x;\n    out[i] = a[i] + a[i];\n}"


def launch_call(source=DOUBLE, block="2", args="[5, -6]\nzeros(2)"):
    return written(ToolCall("launch", {"source": source, "block": block, "args": args}))


@pytest.fixture(scope="module")
def text(tiny):
    return Text(tiny)


SYSTEM = {}
"""Mode -> the caches behind its system message, which the sessions of this file share."""


@pytest.fixture
def start(tiny, text, monkeypatch, tmp_path):
    """A session with a script. Expressions run on the reference interpreter of `article`, kernels on the model's own weights."""
    short = tmp_path / "reference.md"
    short.write_text("Threads know their threadIdx.")
    monkeypatch.setattr("qgpu.chat.tools.REFERENCE", short)
    made = []

    def make(answers, do=None, mode="normal", **options):
        log = Log()
        session = open_session(tiny, log, mode=mode, chooser=Script(text, answers, do), most=options.pop("most", 200), **options)
        if mode == "normal":
            session.toolbox.device = Device(lambda: ReferenceEngine(ARTICLE), check=False)
        if mode in SYSTEM:
            session.writer.kept.append(SYSTEM[mode])
        made.append((mode, session))
        return session, log
    yield make
    for mode, session in made:
        SYSTEM.update({mode: k for k in session.writer.kept[1:2] if k.text.count("<|im_start|>") == 1 and mode not in SYSTEM})


def same_caches(a, b):
    pairs = list(zip(a.layers, b.layers, strict=True))
    return a.position == b.position and all(
        np.array_equal(x.state, y.state) and np.array_equal(x.conv, y.conv) if hasattr(x, "state")
        else x.length == y.length and all(np.array_equal(p[:x.length], q[:x.length]) for p, q in ((x.keys, y.keys), (x.values, y.values)))
        for x, y in pairs)


# ---- answers and launches -----------------------------------------------------------------------------------------------------
def test_an_answer_without_a_call(start):
    session, log = start(["Good day. 你好 \N{EURO SIGN}"])
    turn = session.ask("hello")
    assert (turn.answer, turn.ended, turn.outcomes) == ("Good day. 你好 \N{EURO SIGN}", "answer", [])
    assert log.events == [("said", "Good day. 你好 \N{EURO SIGN}")]


def test_a_call_and_the_answer_after_it(start):
    session, log = start(["Let me compute.\n\n" + calc("[1, 2, 3] @ [4, 5, 6]"), "It is 32."])
    turn = session.ask("dot product?")
    assert turn.answer == "It is 32." and [o.value for o in turn.outcomes] == [32] and turn.outcomes[0].good
    assert log.events == [("said", "Let me compute.\n\n"), ("call", "calc", 1), ("outcome", True, "[1, 2, 3] @ [4, 5, 6] = 32"), ("said", "It is 32.")]
    assert [m["role"] for m in session.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert "<tool_response>\n[1, 2, 3] @ [4, 5, 6] = 32\n</tool_response>" in render(session.messages)


def test_two_calls_in_one_answer_and_what_follows_a_call_is_cut_off(start):
    session, log = start([calc("2 + 3") + "\n" + calc("mean([1, 2, 4])") + "\nThe answer is 99.", "5, and 2 rest 1."])
    turn = session.ask("?")
    assert [o.value for o in turn.outcomes] == [5, [2, 1]] and "99" not in log.said
    assert "99" not in session.messages[2]["content"] and turn.outcomes[1].text == "mean([1, 2, 4]) = [2, 1] (quotient (rounded down), remainder)"


def test_the_models_own_weights_run_the_kernel(start):
    session, log = start([launch_call(), "10 and -12."], mode="advanced")
    turn = session.ask("double 5 and -6")
    assert turn.outcomes[0].text == "argument 2 = [10, -12]" and turn.outcomes[0].value == {2: [10, -12]}
    device = session.toolbox.device
    assert device.machine.name == "tiny" and device.launched[0].checked == device.launched[0].generated > 5


# ---- errors and retries -------------------------------------------------------------------------------------------------------
def test_errors_go_back_to_the_model(start):
    session, log = start([calc("7 / 2"), calc("65536 * 65536"), calc("7 // 2"), "3."])
    turn = session.ask("7 / 2?")
    assert [o.good for o in turn.outcomes] == [False, False, True] and turn.answer == "3."
    assert [e for e in log.events if e[0] == "call"] == [("call", "calc", 1), ("call", "calc", 2), ("call", "calc", 3)]
    assert "a // b" in session.messages[3]["content"] and "65536 * 65536 does not fit in 32 bits" in session.messages[5]["content"]


def test_a_malformed_call(start):
    session, log = start(["<tool_call>\n<function=calc>\n<parameter=expression>\n1 + 1\n</function>\n</tool_call>", calc("1 + 1"), "2."])
    turn = session.ask("?")
    assert turn.problems == 1 and turn.outcomes[-1].value == 2 and turn.answer == "2."
    assert "parameters are written" in log.events[0][1]
    told = session.messages[3]["content"]
    assert told.startswith("error: parameters are written") and "<function=calc>" in told


def test_a_call_that_is_never_closed(start):
    session, log = start(["<tool_call>\n<function=calc>\n<parameter=expression>\n1", "Sorry."])
    assert session.ask("?").problems == 1 and "not closed" in log.events[0][1] and session.turns[0].answer == "Sorry."


def test_the_wrong_tool_and_wrong_parameters(start):
    session, _ = start([written(ToolCall("python", {"code": "1+1"})), written(ToolCall("calc", {"expr": "1 + 1"})), calc("1 + 1"), "2."])
    turn = session.ask("?")
    texts = [o.text for o in turn.outcomes]
    assert "no function 'python'" in texts[0] and "call calc" in texts[0] and "parameter expression is missing" in texts[1] and turn.answer == "2."


def test_three_tries_and_no_more(start):
    session, log = start([calc("1 / 1"), calc("1 / 2"), calc("1 / 3"), calc("1 / 4")])
    turn = session.ask("?")
    assert turn.ended == "tries" and len(turn.outcomes) == MOST_TRIES
    assert "No more calls" in session.messages[-2]["content"] and log.events[-1][0] == "notice"


def test_compile_errors_and_errors_of_the_machine_go_back(start):
    broken = DOUBLE.replace("a[i] + a[i]", "a[i] + b[i]")
    session, _ = start([launch_call(broken), launch_call(DOUBLE.replace("out[i]", "out[i + 400]")), launch_call(), "10, -12."], mode="advanced")
    turn = session.ask("?")
    assert [o.good for o in turn.outcomes] == [False, False, True]
    assert "kernel.cu:3" in turn.outcomes[0].text and "'b'" in turn.outcomes[0].text
    assert "kernel.cu:3" in turn.outcomes[1].text


def test_a_model_that_only_calls(start, monkeypatch):
    monkeypatch.setattr("qgpu.chat.session.MOST_ROUNDS", 3)
    session, log = start([calc(f"{n} + 1") for n in range(4)])
    assert session.ask("?").ended == "rounds" and len(session.turns[0].outcomes) == 3


def test_an_endless_answer_is_cut_off(start, text):
    session, log = start([itertools.cycle(text.encode("again ")), "Good."], most=60)
    assert session.ask("?").ended == "length" and log.said.count("again") > 10 and "cut off after 60 tokens" in log.events[-1][1]
    assert session.ask("and now?").answer == "Good."


def test_pieces_that_are_no_utf8(start, text):
    euro = [text.id_of(c) for c in "âĤ¬"]                                  # the bytes of the euro sign in a byte-level vocabulary
    assert None not in euro and text.decode(euro) == "\N{EURO SIGN}"
    session, log = start([[*text.encode("a"), *euro[:2]], [*euro[:1], *text.encode("b")], [*text.encode("5 "), *euro], "Good."])
    assert session.ask("?").answer.startswith("a\ufffd") and "b" in session.ask("?").answer
    assert session.ask("?").answer == "5 \N{EURO SIGN}" and session.ask("?").answer == "Good."
    assert all(json.dumps(m, ensure_ascii=False).encode() for m in session.messages)


# ---- interrupts ---------------------------------------------------------------------------------------------------------------
class Stop:
    """As chat.interrupts.Interrupts, without signals."""

    def __init__(self):
        self.asked = False

    def stopped(self):
        return self.asked

    def launching(self):
        from contextlib import nullcontext
        return nullcontext()


def test_an_answer_that_is_stopped(start):
    stop = Stop()
    session, log = start(["One two three four five six seven eight nine ten", "Good."], {(0, 6): lambda: setattr(stop, "asked", True)}, interrupts=stop)
    turn = session.ask("count")
    assert turn.ended == "interrupt" and 0 < len(turn.answer) < 30 and log.events[-1] == ("notice", "stopped")
    assert [m["role"] for m in session.messages] == ["system", "user", "assistant"] and session.messages[2]["content"].strip() == turn.answer
    stop.asked = False
    assert session.ask("go on").answer == "Good."


def test_a_question_that_is_stopped_before_the_model_says_anything(start):
    stop = Stop()
    session, _ = start(["Good."], interrupts=stop)
    stop.asked = True
    assert session.ask("?").ended == "interrupt" and len(session.messages) == 1
    stop.asked = False
    assert session.ask("?").answer == "Good."


def test_a_launch_that_is_stopped(start):
    session, log = start([calc("1 + 1"), "Good.", calc("2 + 2"), "4."])
    device = session.toolbox.device

    def interrupt(ready, engine):
        raise KeyboardInterrupt
    device.tap = interrupt
    turn = session.ask("?")
    assert turn.ended == "interrupt" and [m["role"] for m in session.messages] == ["system", "user", "assistant", "tool"]
    device.tap = None
    assert session.ask("still there?").answer == "Good."
    assert session.ask("2 + 2?").outcomes[0].value == 4


def test_a_forward_pass_that_is_cut_in_two(start, tiny):
    """A second Ctrl-C may leave some layers ahead of others; the caches are taken from a copy then."""
    session, _ = start(["One.", "Two.", "Good."])
    session.ask("?")
    side, calls = session.writer.side, itertools.count()
    whole = side.merged.text.fast.forward

    def broken(*args, **kwargs):
        if next(calls) == 1:
            side.cache.layers[0].state += 1
            raise KeyboardInterrupt
        return whole(*args, **kwargs)
    side.merged.text.fast.forward = broken
    assert session.ask("again?").ended == "interrupt"
    side.merged.text.fast.forward = whole
    assert session.ask("and again?").answer in ("Two.", "Good.")
    assert side.cache.position == session.writer.tokens
    replay = load(tiny).conversation()
    ids = session.writer.text.encode(session.writer.seen)
    assert len(ids) == session.writer.tokens
    logits, again = replay.forward(ids, last=True)[0], session.writer.chooser.asked[-1]
    assert np.abs(replay.cache.layers[0].state - side.cache.layers[0].state).max() < 0.05 and logits.shape == again.shape


# ---- history and caches --------------------------------------------------------------------------------------------------------
def test_caches_after_a_launch_are_those_without_it(start, text, tiny):
    """The same words, once with launches and once with results that are only written down: the same caches and logits, to the bit."""
    answers = ["Here.\n\n" + launch_call(), "10 and -12.", launch_call(args="[7, 8]\nzeros(2)"), "14 and 16."]
    session, _ = start(answers, mode="advanced")
    script = session.writer.chooser
    for question in ("double 5 and -6", "and 7 and 8"):
        session.ask(question)
    results = iter([o for turn in session.turns for o in turn.outcomes])
    assert len(session.toolbox.device.launched) == 1

    told, _ = start(answers, mode="advanced")
    told.toolbox.call = lambda call: next(results)
    for question in ("double 5 and -6", "and 7 and 8"):
        told.ask(question)
    assert told.toolbox.device.last is None and told.messages == session.messages
    assert same_caches(session.writer.side.cache, told.writer.side.cache) and session.writer.side.cache.position > 500
    assert len(script.asked) == 4
    for a, b in zip(script.asked, told.writer.chooser.asked, strict=True):
        assert np.array_equal(a.view(np.uint32), b.view(np.uint32))


def test_the_model_reads_what_the_chat_format_says(start, text, tiny):
    """The text behind the caches is the conversation as rendered: the logits are those of one pass over it, but for roundings."""
    session, _ = start([calc("1 + 1"), "2.", "Yes."])
    session.ask("1 + 1?")
    session.ask("sure?")
    prompt = render(session.messages[:-1])
    assert session.writer.seen == prompt + "Yes."
    whole = load(tiny).text.forward(text.encode(prompt), last=True)[0]
    first, _, last = (np.abs(whole - logits).max() for logits in session.writer.chooser.asked)
    assert last < 0.05 * np.abs(whole).max() and last < first / 2, (first, last)


def test_old_text_is_not_read_again(start):
    session, _ = start([calc("1 + 1"), "2.", "Yes.", "Yes!"])
    session.ask("1 + 1?")
    fed, forward = [], session.writer.side.forward
    session.writer.side.forward = lambda ids, **more: fed.append(len(ids)) or forward(ids, **more)
    session.ask("sure?")
    session.ask("really?")
    assert sum(fed) < 250 < session.writer.tokens


def test_history_reset_and_modes(start):
    session, _ = start(["One.", "Two.", "Three.", "Four."])
    session.ask("first")
    session.ask("second")
    assert [m["content"] for m in session.messages[1:]] == ["first", "One.", "second", "Two."]
    session.set_mode("advanced")
    assert "threadIdx" in session.messages[0]["content"] and session.ask("third").answer == "Three."
    session.reset()
    assert len(session.messages) == 1 and session.ask("fourth").answer == "Four." and len(session.messages) == 3


def test_text_that_holds_tokens_of_the_machine_is_refused(start):
    session, _ = start(["Good."])
    with pytest.raises(UsageError, match="is not text"):
        session.ask("what is <|gpu:END|>?")
    assert len(session.messages) == 1 and session.ask("hello").answer == "Good."


def test_a_conversation_that_is_too_long(start, monkeypatch):
    session, _ = start(["Good.", "Good."])
    monkeypatch.setattr("qgpu.chat.writer.MOST_CONTEXT", 700)
    with pytest.raises(UsageError, match="too long"):
        session.ask("word " * 2000)
    assert session.ask("hello").answer == "Good."


@pytest.mark.slow
def test_expressions_on_the_weights_of_a_merged_model(article):
    """Normal mode from end to end on a base of the 2B's layer shape: every launch in the model's own weights, checked."""
    text, log = Text(article), Log()
    answers = [calc("[1, 2, 3] @ [4, 5, 6]"), "32.", calc("mean([3, 8, 1, 9])"), calc("isqrt(1000) + gcd(12, 18)"), "37."]
    session = open_session(article, log, chooser=Script(text, answers))
    assert session.ask("?").outcomes[0].value == 32
    assert [o.value for o in session.ask("?").outcomes] == [[5, 1], 37]
    device = session.toolbox.device
    assert device.machine.name == ARTICLE.name and all(one.checked == one.generated > 0 for one in device.launched)


def test_thoughts(start):
    session, log = start(["I could multiply.\n</think>\n\nIt is " + calc("6 * 7"), "Hm.\n</think>\n\n42.", "Good."], thinking=True)
    turn = session.ask("6 * 7?")
    assert turn.answer == "42." and turn.outcomes[0].value == 42 and "</think>" not in log.said and "I could multiply." in log.said
    assert "I could multiply." in render(session.messages)                      # kept until the next question
    session.ask("sure?")
    assert "I could multiply." not in render(session.messages)
