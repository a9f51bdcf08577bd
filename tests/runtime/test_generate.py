"""The token loop and the progress line."""

import io

import pytest

from qgpu.errors import FaultError
from qgpu.machine.description import ARTICLE
from qgpu.machine.tokens import Token, Vocabulary
from qgpu.runtime.engine_api import Engine
from qgpu.runtime.generate import generate
from qgpu.runtime.progress import Progress

V = Vocabulary(ARTICLE)
EXEC = V.id_of(Token("EXEC", (0, (0, 0, 0, 0))))
END, TRAP, NOP, CONFIG, GRID = (V.id_of(t) for t in (Token("END"), Token("TRAP"), Token("NOP"), Token("CONFIG", (1, 1)),
                                                     Token("GRID", (0,))))


class Script:
    """Writes the given tokens, then the last one for ever."""

    machine = ARTICLE

    def __init__(self, *tokens):
        self.tokens, self.fed = tokens, []

    def feed(self, ids):
        self.fed.append(list(ids))
        return self.tokens[min(len(self.fed), len(self.tokens)) - 1]

    def read_global(self, words):
        return [0] * words

    def fork(self):
        return Script(*self.tokens)

    def reset(self):
        self.fed = []


@pytest.mark.parametrize("tokens, how", [
    ((EXEC, 5, END), "END"), ((TRAP,), "TRAP"), ((EXEC, NOP), "FOREIGN"), ((CONFIG,), "FOREIGN"), ((EXEC, 5, GRID), "FOREIGN")])
def test_how_it_stops(tokens, how):
    ids, engine = [0, 0, 7], Script(*tokens[1:])
    assert isinstance(engine, Engine)
    assert generate(engine, ARTICLE, ids, tokens[0]) == how
    assert ids == [0, 0, 7, *tokens]
    assert engine.fed == [[t] for t in tokens[:-1]]


def test_the_limit_counts_generated_tokens():
    for limit in (1, 2, 50):
        ids = [0, 0, 7]
        assert generate(Script(EXEC), ARTICLE, ids, EXEC, limit) == "LIMIT" and len(ids) == 3 + limit
    ids = [0]
    assert generate(Script(END), ARTICLE, ids, EXEC, 2) == "END"


@pytest.mark.parametrize("token", [-1, V.size])
def test_tokens_outside_the_vocabulary(token):
    with pytest.raises(FaultError, match="does not have"):
        generate(Script(END), ARTICLE, [0], token)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def times(*readings):
    steps = iter(readings)
    return lambda: next(steps)


def test_nothing_is_shown_within_a_second():
    out = io.StringIO()
    progress = Progress(out, times(0.0, 0.5, 0.99))
    progress.begin()
    progress.step()
    progress.step()
    progress.close()
    assert out.getvalue() == ""


def test_lines_without_a_terminal_are_rare():
    out = io.StringIO()
    progress = Progress(out, times(0.0, 2.0, 2.0, 5.0, 12.5, 12.5))
    progress.begin()
    for _ in range(3):
        progress.step()
    progress.close()
    assert out.getvalue() == "1 tokens, 0 tokens/s\n3 tokens, 0 tokens/s\n"


def test_a_terminal_line_is_rewritten_and_removed():
    out = Terminal()
    progress = Progress(out, times(0.0, 2.0, 2.0))
    progress.begin()
    progress.tokens = 3999
    progress.step()
    progress.close()
    assert out.getvalue() == "\r4,000 tokens, 2,000 tokens/s\x1b[K\r\x1b[K"
