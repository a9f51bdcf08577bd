"""Why the one signal that holds a fraction, the front's item counter, is exact.

``count_power`` is read from a row that an EXEC or NEXT sets to 1 and every SVAL and MEM halves. So its values are

- 128 * 2^-n, n items after an EXEC or NEXT; the machine sends at most `most` items before the next token that is no item;
- smaller ones (n > `most`) between launches, where the host's own records are counted too; 0 before the first EXEC.

The factor that halves is exp(-softplus(0)), which fp32 has to within a few units of 2^-24, as are the sums over a chunk; the read is
rounded to bf16, whose neighbours of a power of two are 2^-9 away: what enters the residual stream is the power of two itself.

The units that read it are [n = j] = relu(2 - y) relu(4y - 2) / 2 with y = 2^(j-n). Each factor has one coefficient, a power
of two, and a bias that is a bf16 number: a sum of two exact terms, so fp32 rounds it once, in whatever order, and rounding keeps the
sign and keeps 0. Hence it suffices that at every value with both factors positive they are small integers, which the function below
finds by trying all values, and that for the smaller values one factor is not positive at the largest of them and does not
grow downwards. Factors that are large (to 2^26) or rounded meet a partner that is exactly 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from .bounds import F_LIMIT, G_LIMIT, H_LIMIT
from .checks import is_bf16
from .core import Circuit, Form, Signal, Unit

ONE = 128
"""What the counter reads with no item sent."""


def counting_units(c: Circuit) -> list[Unit]:
    """Units that read a signal that holds a fraction."""
    return [u for u in c.units if any(s.fractional for s in u.reads())]


def check_counting(c: Circuit, most: int) -> list[str]:
    """What cannot be proved exact about the units that read a counter (empty: all is proved).

    most: items that are sent before the counter is set to 1 again. The counter's values are 128 * 2^-n.
    """
    problems = []
    units = counting_units(c)
    mine = {id(u) for u in units}
    written = {s for u in units for s, _ in u.outs}
    shared = written & {s for u in c.units if id(u) not in mine for s, _ in u.outs}
    shared |= written & {s for h in c.heads for outs in h.outs for s, _ in outs}
    problems += [f"signal {s.name} adds counting units to others" for s in shared]
    totals: dict[Signal, list[Fraction]] = {s: [Fraction(0)] * (most + 1) for s in written}
    for u in units:
        what = f"{u.group}: {u.note}"
        if len(u.reads()) != 1 or u.tap:
            problems.append(f"{what}: reads more than the counter")
            continue
        (power,) = u.reads()
        if not all(_two_exact_terms(form) for form in (u.f, u.g)):
            problems.append(f"{what}: a factor is not a power of two times the counter and a bf16 bias")
        for n in range(most + 1):
            f, g = (_value(form, power, Fraction(ONE, 1 << n)) for form in (u.f, u.g))
            if f > F_LIMIT:
                problems.append(f"{what}: its value reaches {f} at n = {n}")
            if f <= 0 or g <= 0:
                continue
            if f.denominator > 1 or g.denominator > 1 or g > G_LIMIT or f * g > H_LIMIT:
                problems.append(f"{what}: factors {f} and {g} at n = {n}")
            for s, w in u.outs:
                totals[s][n] += Fraction(w) * f * g
        rest = Fraction(ONE, 1 << most + 1)
        if not any(form.coef.get(power, 0) >= 0 and _value(form, power, rest) <= 0 for form in (u.f, u.g)):
            problems.append(f"{what}: may be on beyond {most} items")
    for s, values in totals.items():
        if any(v.denominator > 1 or not s.lo <= v <= s.hi for v in values):
            problems.append(f"signal {s.name} leaves its range {s.lo}..{s.hi} or is a fraction")
    return problems


def _value(form: Form, power: Signal, x: Fraction) -> Fraction:
    return Fraction(form.const) + Fraction(form.coef.get(power, 0)) * x


def _two_exact_terms(form: Form) -> bool:
    """Whether coefficients are powers of two (their sign aside) and the bias has at most 8 significant bits."""
    powers = all(_is_power(abs(Fraction(k))) for k in form.coef.values())
    return powers and is_bf16(form.const)


def _is_power(x: Fraction) -> bool:
    return all(v & (v - 1) == 0 for v in (x.numerator, x.denominator))


def without(c: Circuit, units: Iterable[Unit]) -> Circuit:
    """The same circuit less some units (signals, heads and groups are shared)."""
    out, gone = Circuit(), {id(u) for u in units}
    out.__dict__.update(c.__dict__)
    out.units = [u for u in c.units if id(u) not in gone]
    return out
