"""The static certificate: a checkpoint's tensors are those of its signal map, and whatever its layers compute is exact.

The rules, by letter, are those of docs/certificate.md. Nothing here reads the compiler's objects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field

import numpy as np

from ..errors import CheckpointError, UsageError
from ..machine.description import ARTICLE, Machine, as_dict
from ..machine.tokens import KINDS
from .checkpoint import Tensors, sha256
from .claims import Claims
from .codes import code_table
from .counting import check_power_table
from .expected import LayerRules, Matrix
from .layer_rules import LayerCheck, LayerFacts
from .numbers import RESIDUAL_CONSTANT, check_tables
from .output import check_output
from .programs import OPERATION, exclusive_bits, exclusive_while
from .prover import Prover
from .world import World

LINEAR, FULL = "linear_attention", "full_attention"
SHOWN = 40


@dataclass
class Certificate:
    """problems: why it does not hold (empty: it holds). assumptions: what it rests on. layers: what was proved of each."""

    machine: str
    problems: list[str] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    layers: list[LayerFacts] = field(default_factory=list)
    output: dict = field(default_factory=dict)
    tensors: dict[str, str] = field(default_factory=dict)
    totals: dict = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        return not self.problems

    def as_dict(self) -> dict:
        """For JSON."""
        return {"format": 1, "holds": self.holds, "machine": self.machine, "problems": self.problems, "assumptions": self.assumptions,
                "totals": self.totals, "output": self.output, "seconds": round(self.seconds, 1),
                "layers": [asdict(x) for x in self.layers], "sha256": self.tensors}


def machine_of(claims: Claims) -> Machine:
    """The machine that the map names. Raises CheckpointError."""
    try:
        return Machine(**{k: tuple(v) if isinstance(getattr(ARTICLE, k), tuple) else v for k, v in claims.machine.items()}).validate()
    except (TypeError, AttributeError, UsageError) as error:
        raise CheckpointError("the map's machine is none", where="signal map", why=str(error)) from None


class Checker:
    """Checks one checkpoint; `layer_tensors` alone is what a changed weight needs."""

    def __init__(self, tensors: Tensors, config: dict, claims: Claims) -> None:
        self.tensors, self.config, self.claims = tensors, config, claims
        self.machine = machine_of(claims)
        self.names = set(tensors.names())
        embeds = [n for n in self.names if n.endswith("embed_tokens.weight")]
        if len(embeds) != 1:
            raise CheckpointError(f"{len(embeds)} embeddings are there, not one")
        self.embed_name = embeds[0]
        self.prefix = self.embed_name.removesuffix("embed_tokens.weight")
        self.codes = code_table(self.machine)

    # ---- tensors ------------------------------------------------------------------------------------------------------
    def check_config(self) -> list[str]:
        """The shapes and settings on which every rule rests."""
        m, n, c = self.machine, len(self.claims.layers), self.config
        wanted = {"hidden_size": m.hidden, "num_hidden_layers": n + 1, "layer_types": [LINEAR] * n + [FULL], "linear_conv_kernel_dim": 4,
                  "linear_key_head_dim": m.head_dim, "linear_value_head_dim": m.head_dim, "linear_num_key_heads": m.heads,
                  "linear_num_value_heads": m.heads, "hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
                  "vocab_size": len(self.codes), "attention_bias": False, "qgpu_machine": as_dict(m)}
        return [f"config.json: {k} is {c.get(k)!r}, not {v!r}" for k, v in wanted.items() if c.get(k) != v]

    def layer_expectations(self, number: int) -> dict[str, Matrix]:
        """Full name -> expected tensor of layer `number` (from 1; one more than the circuit's: the empty attention layer)."""
        m, start = self.machine, f"{self.prefix}layers.{number - 1}."
        inner = int(self.config.get("intermediate_size", 0))
        if number <= len(self.claims.layers):
            rules = LayerRules(self.claims, number, m.hidden, m.heads, m.head_dim, inner)
            return {start + name: t for name, t in rules.tensors.items()}
        c = self.config
        q, kv, size = (int(c[k]) for k in ("num_attention_heads", "num_key_value_heads", "head_dim"))
        d = m.hidden
        shapes = {"input_layernorm.weight": (d,), "post_attention_layernorm.weight": (d,), "self_attn.q_proj.weight": (2 * q * size, d),
                  "self_attn.k_proj.weight": (kv * size, d), "self_attn.v_proj.weight": (kv * size, d),
                  "self_attn.o_proj.weight": (d, q * size), "self_attn.q_norm.weight": (size,), "self_attn.k_norm.weight": (size,),
                  "mlp.gate_proj.weight": (inner, d), "mlp.up_proj.weight": (inner, d), "mlp.down_proj.weight": (d, inner)}
        return {start + name: Matrix(shape) for name, shape in shapes.items()}

    def top_expectations(self) -> dict[str, Matrix]:
        """V: the embedding of every token, which is the output head too; a final norm of weight 1."""
        m, r = self.machine, self.claims.residual
        embed = np.zeros((len(self.codes), m.hidden), np.float32)
        embed[:, list(r.code)] = self.codes * np.float32(r.scale)
        embed[:, list(r.constants)] = RESIDUAL_CONSTANT
        at = np.flatnonzero(embed)
        matrix = Matrix(embed.shape, dict(zip(at.tolist(), embed.reshape(-1)[at].tolist())))
        return {self.embed_name: matrix, f"{self.prefix}norm.weight": Matrix((m.hidden,))}

    def expectations(self) -> Iterator[dict[str, Matrix]]:
        """All expected tensors, a layer at a time."""
        yield self.top_expectations()
        for number in range(1, len(self.claims.layers) + 2):
            yield self.layer_expectations(number)

    def check_map(self) -> list[str]:
        """The map's fixed dims: in range, apart from each other and from signals."""
        m, r, out = self.machine, self.claims.residual, []
        fixed = [*r.constants, *(d for d, _ in r.silence), *r.ones, *([r.ballast[0]] if r.ballast else []), *r.code]
        if len(set(fixed)) != len(fixed) or not all(0 <= d < m.hidden for d in fixed) or len(r.constants) < 2 or not r.silence:
            out.append("the map's fixed dims are not apart")
        taken = set(fixed) - set(r.code)
        out += [f"signal {s.name} lies in dim {s.dim}" for s in self.claims.signals if s.dim in taken or not 0 <= s.dim < m.hidden]
        codes = [s for s in self.claims.signals if s.kind == "code"]
        if [s.dim for s in codes] != list(r.code) or len(codes) != self.codes.shape[1] or any((s.lo, s.hi) != (-1, 1) for s in codes):
            out.append("the map's code signals are not the code dims")
        if {d: (s, -1, 1) for s, d in enumerate(r.code)} != self.claims.boundaries[0]:
            out.append("the map's first boundary is not the embedding")
        for number, heads in enumerate(self.claims.layers, 1):
            full = [h.name for h in heads if max(len(h.units), len(h.value)) > m.head_dim - 2]
            if len(heads) > m.heads or full:
                out.append(f"layer {number} of the map has {len(heads)} heads; too full: {full}")
        return out

    # ---- everything -----------------------------------------------------------------------------------------------------
    def world(self) -> tuple[World, Prover, list[str]]:
        """Variables, what is known of them beforehand, and the assumptions used."""
        world = World(self.claims)
        facts, m = world.facts, self.machine
        by_name = {s.name: i for i, s in enumerate(self.claims.signals)}
        kinds = list(range(len(KINDS)))
        facts.one_hot(kinds)                                            # V: true of every row of the embedding
        for tap in (1, 2, 3):
            facts.one_hot([world.var(s, tap) for s in kinds])
        rules: dict[str, None] = {}
        for rule, names in exclusive_bits(m):
            members = [by_name[n] for n in names if n in by_name]
            if len(members) > 1:
                rules[rule] = None
                (facts.apart if rule == OPERATION else facts.one_hot)(members)
        for rule, bit, names in exclusive_while(m):
            members = [by_name[n] for n in names if n in by_name]
            if bit in by_name and len(members) > 1:
                rules[rule] = None
                for u in members:
                    for v in members:
                        if u != v:
                            facts.when[u, v].append(by_name[bit])
        return world, Prover(facts), list(rules)

    def first_token(self) -> list[int]:
        """The code of the token that a stream begins with."""
        nop = np.flatnonzero(self.codes[:, KINDS.index("NOP")] == 1)[0]
        return self.codes[nop].tolist()

    def run(self, progress: Callable[[str], None] = lambda text: None, digests: bool = True) -> Certificate:
        """The whole certificate."""
        began, out = time.perf_counter(), Certificate(self.machine.name)
        out.problems += check_tables() + check_power_table() + self.check_config() + self.check_map()
        seen: set[str] = set()
        for number, expected in enumerate(self.expectations()):
            progress(f"tensors of layer {number} of {len(self.claims.layers) + 1}")
            for name, matrix in expected.items():
                seen.add(name)
                out.problems += self.check_tensor(name, matrix)
                if digests and name in self.names:
                    out.tensors[name] = sha256(self.tensors.get(name))
        out.problems += [f"there is a tensor {n} that no rule knows" for n in sorted(self.names - seen)]
        out.problems += [f"tensor {n} does not have the map's digest" for n, d in out.tensors.items()
                         if self.claims.digests and self.claims.digests.get(n) != d]
        if not out.problems:
            self._prove(out, progress)
        out.seconds = time.perf_counter() - began
        return out

    def check_tensor(self, name: str, matrix: Matrix) -> list[str]:
        """Where a tensor differs from what is expected."""
        if name not in self.names:
            return [f"there is no tensor {name}"]
        return matrix.differences(self.tensors.get(name), name)

    def _prove(self, out: Certificate, progress: Callable[[str], None]) -> None:
        world, prover, rules = self.world()
        check = LayerCheck(world, prover, self.machine.head_dim, self.first_token())
        for number in range(1, len(self.claims.layers) + 1):
            problems, facts = check.run(number)
            progress(f"layer {number} of {len(self.claims.layers)}: {facts.units} units, {facts.memory_heads} memory heads, "
                     f"{facts.contents} sums")
            out.problems += problems + [f"layer {number}: no proof that {x}" for x in facts.unproved]
            out.layers.append(facts)
        problems, out.output = check_output(world, prover, self.codes, self.machine.hidden)
        out.problems += problems
        out.assumptions = [*BASIC, *(f"Programs are well formed: {rule}." for rule in rules), *out.output.pop("assumptions")]
        out.totals = {"layers": len(out.layers), "units": sum(x.units for x in out.layers), "heads": sum(x.heads for x in out.layers),
                      "memory_heads": sum(x.memory_heads for x in out.layers), "sums": sum(x.contents for x in out.layers),
                      "one_hot_groups": sum(x.groups for x in out.layers), "tensors": len(self.names),
                      "searches": prover.found, "repeated": prover.repeated, "steps": prover.steps,
                      "most_bits_of_a_sum": max(max(x.bits_in, x.bits_out) for x in out.layers)}


BASIC = [
    "fp32 sums and products are rounded once each; an implementation's rsqrt, exp and division are off by less than 2^-21 of the result.",
    "Tokens go one at a time (the recurrent rule); or, in the chunked rule, what a chunk wrote to a row is summed in the order of tokens.",
    "A stream begins with NOP.",
]
