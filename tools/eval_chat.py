"""How well a merged model uses its GPU: fixed questions with exact answers, and a table of what came of them.

    python tools/eval_chat.py MODEL [--samples N] [--seed S] [--temperature T] [--out FILE.jsonl] [--only NAME,...] [--no-check]

Every sample is a line of FILE (default eval_chat.jsonl); run it again and what is there already is not asked again.
Columns: right, the answer says the exact result; on GPU, a launch gave it; call, the first call was well formed and gave it;
tries, calls a question took. Samples differ by their seeds; without a temperature one is enough.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from qgpu.chat.session import Session, Turn
from qgpu.errors import QgpuError, UsageError


@dataclass(frozen=True)
class Question:
    """answer: the integers that the answer must hold, side by side and in order."""

    name: str
    text: str
    answer: tuple[int, ...]
    mode: str = "normal"


def _fibonacci(n: int) -> int:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def _collatz(n: int) -> int:
    steps = 0
    while n != 1:
        n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
    return steps


_A, _B = ((12, 7), (-3, 25)), ((4, -6), (9, 11))
_LIST = (417, 1203, -88, 956, 3021, 64, 777)

QUESTIONS = [
    Question("product", "What is 4738 times 2961?", (4738 * 2961,)),
    Question("sum", "Add up 8471, 9235, 1187, 6604 and 7359.", (8471 + 9235 + 1187 + 6604 + 7359,)),
    Question("difference", "What is 1000003 minus 765432?", (1000003 - 765432,)),
    Question("dot", "What is the dot product of [13, 27, 45] and [62, 19, 38]?", (13 * 62 + 27 * 19 + 45 * 38,)),
    Question("power", "What is 13 to the power of 7?", (13**7,)),
    Question("chain", "Compute (873 + 419) * 57 - 12345.", ((873 + 419) * 57 - 12345,)),
    Question("quotient", "How many times does 137 fit into 987654, and what is left over?", divmod(987654, 137)),
    Question("negative quotient", "In Python, what is -7919 // 64?", (-7919 // 64,)),
    Question("negative remainder", "In Python, what is -7919 % 64?", (-7919 % 64,)),
    Question("largest", f"What is the largest number in {list(_LIST)}?", (max(_LIST),)),
    Question("smallest product", "Which is larger, 463 * 529 or 487 * 503? Give the larger product.", (max(463 * 529, 487 * 503),)),
    Question("mean", "What is the mean of 512, 733, 918, 244 and 391 as a whole number with a remainder?", divmod(512 + 733 + 918 + 244 + 391, 5)),
    Question("sort", "Sort these numbers: 503, 87, 912, 154, 660, 29.", tuple(sorted((503, 87, 912, 154, 660, 29)))),
    Question("gcd", "What is the greatest common divisor of 48972 and 36876?", (math.gcd(48972, 36876),)),
    Question("lcm", "What is the least common multiple of 84, 90 and 126?", (math.lcm(84, 90, 126),)),
    Question("factorial", "What is the factorial of 11?", (math.factorial(11),)),
    Question("prime", "Is 1000003 a prime number? Compute it and give 1 for yes and 0 for no.", (1,)),
    Question("square root", "What is the square root of 7654321, rounded down?", (math.isqrt(7654321),)),
    Question("matrix", f"Multiply the matrices {[list(r) for r in _A]} and {[list(r) for r in _B]}.",
             tuple(sum(a * b for a, b in zip(row, column)) for row in _A for column in zip(*_B))),
    Question("norm", "What is the squared length of the vector [31, -47, 58]?", (31**2 + 47**2 + 58**2,)),
    Question("series", "What is the sum of the whole numbers from 1 to 250?", (sum(range(251)),)),
    Question("squares", "What is the sum of the squares of the numbers from 1 to 30?", (sum(k * k for k in range(31)),)),
    Question("modular power", "What is 7 to the power of 300, modulo 1009?", (pow(7, 300, 1009),)),
    Question("shop", "A shop sells 137 crates of 48 bottles at 3 euros a bottle. How many euros is that?", (137 * 48 * 3,)),
    Question("time", "How many seconds are in 17 days, 5 hours and 42 minutes?", (17 * 86400 + 5 * 3600 + 42 * 60,)),
    Question("scaled", "Multiply every number in [17, 23, 31, 47] by 89.", tuple(89 * k for k in (17, 23, 31, 47))),
    Question("large product", "What is 46340 squared?", (46340**2,)),
    Question("kernel add", "Add the lists [171, 282, 393] and [919, 828, 737] element by element.", (1090, 1110, 1130), "advanced"),
    Question("kernel sum", "What is the sum of [811, 622, 433, 244, 955, 166]?", (811 + 622 + 433 + 244 + 955 + 166,), "advanced"),
    Question("kernel fibonacci", "What is the 30th Fibonacci number, where the first and the second are 1?", (_fibonacci(30),), "advanced"),
    Question("kernel collatz", "How many Collatz steps does 97 take to reach 1?", (_collatz(97),), "advanced"),
    Question("kernel divisors", "How many divisors does 5040 have?", (sum(5040 % d == 0 for d in range(1, 5041)),), "advanced"),
]


def integers(text: str, grouped: bool = True) -> list[int]:
    """The whole numbers in a text. grouped: thousands separators of English prose and LaTeX are taken out."""
    if grouped:
        text = re.sub(r"(?<=\d)(?:,|\{,\}|\\,|_)(?=\d{3}(?!\d))", "", text)
    text = text.replace("\N{MINUS SIGN}", "-")
    return [int(t) for t in re.findall(r"(?<![\w.])-?[0-9]{1,30}(?![\w]|\.\d)", text)]


def says(found: Iterable[int], wanted: tuple[int, ...]) -> bool:
    """Whether the wanted integers stand side by side among those found."""
    found = list(found)
    return any(tuple(found[i:i + len(wanted)]) == wanted for i in range(len(found) - len(wanted) + 1))


def flat(value) -> Iterable[int]:
    """The integers of an outcome's value: a number, lists, or lists by argument."""
    if isinstance(value, dict):
        return itertools.chain.from_iterable(flat(v) for v in value.values())
    return itertools.chain.from_iterable(map(flat, value)) if isinstance(value, list) else [] if value is None else [value]


def judge(question: Question, turn: Turn) -> dict:
    """A sample's columns."""
    gave = [outcome.good and says(flat(outcome.value), question.answer) for outcome in turn.outcomes]
    right = any(says(integers(turn.answer, grouped), question.answer) for grouped in (True, False))
    return {"right": right, "on_gpu": any(gave), "call": bool(gave) and gave[0] and not turn.problems,
            "tries": len(turn.outcomes) + turn.problems}


def read_done(path: Path, settings: dict) -> dict[tuple[str, int], dict]:
    """Samples that are there already. A line that was cut off is passed over. Raises UsageError where they are of other settings."""
    done = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if record["settings"] != settings:
                raise UsageError("these samples are of other settings", where=str(path), why=f"{record['settings']}, not {settings}",
                                 fix="choose another file with --out")
            done[record["name"], record["sample"]] = record
    return done


def evaluate(ask: Callable[[Question, int], Turn], questions: list[Question], samples: int, path: Path, settings: dict,
             say: Callable[[str], None] = lambda text: None) -> list[dict]:
    """Ask what is not in the file yet, append it there line by line, and return all samples in order.

    ask: puts a question with a sample's number.
    """
    done = read_done(path, settings)
    with open(path, "a+", encoding="utf-8") as file:
        file.seek(0)
        text = file.read()
        if text and not text.endswith("\n"):
            file.write("\n")
        for question in questions:
            for sample in range(samples):
                if (question.name, sample) in done:
                    continue
                start = time.perf_counter()
                try:
                    turn = ask(question, sample)
                except QgpuError as error:
                    turn = Turn(question.text, f"error: {error}", ended="error")
                record = {"name": question.name, "mode": question.mode, "sample": sample, **judge(question, turn), "answer": turn.answer,
                          "ended": turn.ended, "calls": [{"arguments": o.call.arguments, "text": o.text} for o in turn.outcomes],
                          "seconds": round(time.perf_counter() - start, 2), "settings": settings}
                file.write(json.dumps(record) + "\n")
                file.flush()
                done[question.name, sample] = record
                say(f"{question.name}, sample {sample}: {'right' if record['right'] else 'wrong'}, {record['seconds']} s")
    return [done[q.name, s] for q in questions for s in range(samples)]


def table(records: list[dict]) -> str:
    """A line a question, then the totals of each mode."""
    lines = [f"{'question':<20}{'mode':<10}{'right':>7}{'on GPU':>8}{'call':>6}{'tries':>7}{'seconds':>9}"]

    def line(name: str, mode: str, group: list[dict]) -> str:
        n = len(group)
        counts = [f"{sum(r[key] for r in group)}/{n}" for key in ("right", "on_gpu", "call")]
        return (f"{name:<20}{mode:<10}{counts[0]:>7}{counts[1]:>8}{counts[2]:>6}{sum(r['tries'] for r in group) / n:>7.1f}"
                f"{sum(r['seconds'] for r in group) / n:>9.1f}")
    for name in dict.fromkeys(r["name"] for r in records):
        group = [r for r in records if r["name"] == name]
        lines.append(line(name, group[0]["mode"], group))
    for mode in dict.fromkeys(r["mode"] for r in records):
        lines.append(line("all", mode, [r for r in records if r["mode"] == mode]))
    return "\n".join(lines)


class Quiet:
    """A screen that shows nothing."""

    def piece(self, text): ...
    def call(self, call, attempt): ...
    def outcome(self, outcome): ...
    def notice(self, text): ...


def asker(session: Session, reseed: Callable[[int], object]) -> Callable[[Question, int], Turn]:
    """Asks questions of one session, each in a conversation of its own. reseed: a sample's number to what chooses its tokens."""
    def ask(question: Question, sample: int) -> Turn:
        session.toolbox.mode = question.mode
        session.reset()
        session.writer.chooser = reseed(sample)
        return session.ask(question.text)
    return ask


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Ask a merged model fixed questions and count what comes of them.", allow_abbrev=False)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--top-k", type=int, default=0)
    parser.add_argument("--max-new-tokens", type=int, default=1024)
    parser.add_argument("--out", type=Path, default=Path("eval_chat.jsonl"))
    parser.add_argument("--only", metavar="NAME,...", help="these questions only")
    parser.add_argument("--check", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args(arguments)
    try:
        return run(options)
    except QgpuError as error:
        print(f"eval_chat: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"eval_chat: interrupted; run it again to go on from {options.out}", file=sys.stderr)
        return 130


def run(options: argparse.Namespace) -> int:
    """Load the model, ask, print the table."""
    from qgpu.chat.open import check_model, open_session
    from qgpu.qwen.sampling import Sampler, Sampling
    questions = QUESTIONS
    if options.only:
        names = options.only.split(",")
        questions = [q for q in QUESTIONS if q.name in names]
        if len(questions) < len(names):
            raise UsageError("there is no such question", where="--only", fix="names: " + ", ".join(q.name for q in QUESTIONS))
    folder = check_model(options.model)
    settings = {"model": folder.resolve().name, "seed": options.seed, "temperature": options.temperature, "top_p": options.top_p,
                "top_k": options.top_k, "max_new_tokens": options.max_new_tokens}
    session = open_session(folder, Quiet(), check=options.check, most=options.max_new_tokens)
    suppress = session.writer.chooser.suppress

    def reseed(sample: int) -> Sampler:
        return Sampler(Sampling(options.temperature, options.top_k, options.top_p, seed=options.seed + sample), suppress)
    records = evaluate(asker(session, reseed), questions, options.samples, options.out, settings, lambda text: print(text, file=sys.stderr))
    print(table(records))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
