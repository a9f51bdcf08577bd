"""Where variables lie: the memory map of one launch beyond its arguments.

Global memory, from word 0: the arguments' arrays; variables of `.global` and `.const`; one frame a thread for `.local` variables; the
parameter space, if it is read at computed addresses, and scratch words, if shared memory has no room; spill slots, one word a
thread each. Shared memory: static variables, the dynamic part, and at its end the words of shuffles and of barriers that count.
Addresses of every state space are the machine's own, so conversions between them change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import LoweringError, UsageError
from ..machine.description import Machine
from ..ptx.mangling import demangle
from ..ptx.model import Kernel, Module, Variable
from .flatten import addressed
from .launch import LaunchShape


def _up(n: int, step: int) -> int:
    return -(-n // max(step, 1)) * max(step, 1)


@dataclass
class Variables:
    """Places of one launch. at: name -> (state space, byte address; of `.local` the offset in the thread's frame)."""

    machine: Machine
    kernel: str
    threads: int
    at: dict[str, tuple[str, int]] = field(default_factory=dict)
    data: dict[int, int] = field(default_factory=dict)
    frame_bytes: int = 0
    frames: int = 0
    shared_bytes: int = 0
    _arrays_end: int | None = None
    _global_end: int = 0
    _reserved: dict[str, int] = field(default_factory=dict)
    spill_slots: int = 0

    # ---- laying out -----------------------------------------------------------------------------------------------
    def place(self, module: Module, kernel: Kernel, launch: LaunchShape) -> None:
        """Give every variable that the kernel can name its place. Raises UsageError where memory does not suffice."""
        self._arrays_end = None if launch.arrays_words is None else 4 * launch.arrays_words
        self._global_end = self._arrays_end or 0
        own = [*kernel.shared.values(), *kernel.consts.values()]
        names = {v.name for v in own}
        dynamic: list[Variable] = []
        named = {o for ins in kernel.instructions for o in _names(ins.operands)}
        wanted = [v for v in module.globals.values() if v.name not in names]
        for v in own + [v for v in wanted if v.space == "shared" or v.name in _reached(module, named)]:
            if v.space == "shared" and v.is_extern:
                dynamic.append(v)
            elif v.space == "shared":
                self.shared_bytes = _up(self.shared_bytes, v.align)
                self.at[v.name] = ("shared", self.machine.shared_base + self.shared_bytes)
                self.shared_bytes += v.size
            elif v.space in ("global", "const"):
                self._initialised(v)
        self._addresses(module)
        self.shared_bytes = _up(self.shared_bytes, max([16, *(v.align for v in dynamic)]) if dynamic else 4)
        for v in dynamic:
            self.at[v.name] = ("shared", self.machine.shared_base + self.shared_bytes)
        self.shared_bytes = _up(self.shared_bytes + launch.shared_bytes, 4)
        if self.shared_bytes > 4 * self.machine.shared_words:
            raise UsageError(f"kernel {self.kernel} needs {self.shared_bytes} bytes of shared memory",
                             why=f"machine {self.machine.name!r} has {4 * self.machine.shared_words}")
        in_memory = addressed(kernel)
        for v in [*kernel.locals.values(), *(v for v in kernel.call_params.values() if v.name in in_memory)]:
            self.frame_bytes = _up(self.frame_bytes, max(4, v.align))
            self.at[v.name] = ("local", self.frame_bytes)
            self.frame_bytes += v.size
        self.frame_bytes = _up(self.frame_bytes, 8 if self.frame_bytes > 4 else 4)
        self._global_end = _up(self._global_end, 8)
        self.frames = self.machine.global_base + self._global_end
        self._global_end += self.frame_bytes * self.threads

    def _initialised(self, v: Variable) -> None:
        self._global_end = _up(self._global_end, max(4, v.align))
        start = self._global_end
        self.at[v.name] = (v.space, self.machine.global_base + start)
        if v.init is not None:
            self._write(start, v.init)
        self._global_end += v.size

    def _write(self, start: int, content: bytes) -> None:
        for k in range(0, len(content), 4):
            self.data[(start + k) // 4] = int.from_bytes(content[k:k + 4], "little")

    def _addresses(self, module: Module) -> None:
        """Addresses inside initialisers."""
        for v in module.globals.values():
            for a in v.init_addresses if v.name in self.at else ():
                target = self.at.get(a.symbol.name)
                if a.symbol.name in module.functions:
                    raise LoweringError(f"{demangle(v.name)} holds the address of function {demangle(a.symbol.name)}", where=self.kernel,
                                        why="function pointers and virtual functions are not supported: code has no addresses here",
                                        fix="choose between the functions by an if or a switch")
                if target is None:
                    raise UsageError(f"the initialiser of {v.name} holds the address of {a.symbol.name}, which has none here")
                value = ((target[1] + a.symbol.offset) >> 8 * a.shift & (1 << 8 * a.width) - 1).to_bytes(a.width, "little")
                first = self.at[v.name][1] - self.machine.global_base + a.offset
                for k, byte in enumerate(value):
                    word, shift = (first + k) // 4, (first + k) % 4 * 8
                    self.data[word] = self.data.get(word, 0) & ~(0xFF << shift) | byte << shift

    # ---- on demand ------------------------------------------------------------------------------------------------
    def parameters(self, space: bytes) -> int:
        """Byte address of a copy of the parameter space in global memory."""
        if "parameters" not in self._reserved:
            self._global_end = _up(self._global_end, 8)
            self._reserved["parameters"] = self.machine.global_base + self._global_end
            self._write(self._global_end, space)
            self._global_end += _up(len(space), 4)
        return self._reserved["parameters"]

    def scratch(self, name: str, words: int) -> int:
        """Byte address of words of the lowering's own, the same for the same name; at the end of shared memory if there is room."""
        if name not in self._reserved:
            taken = sum(self._reserved.get(f"{n}.words", 0) for n in ("shuffle", "reduce"))
            last = self.machine.shared_words - taken - words
            if last * 4 >= self.shared_bytes:
                self._reserved[name], self._reserved[f"{name}.words"] = self.machine.shared_base + 4 * last, words
            else:
                self._global_end = _up(self._global_end, 4)
                self._reserved[name] = self.machine.global_base + self._global_end
                self._global_end += 4 * words
        return self._reserved[name]

    def spill_base(self) -> int:
        """Byte address of the first spill slot; slot k of thread t is word k * threads + t from here."""
        return self.machine.global_base + _up(self._global_end, 4)

    # ---- what it comes to -----------------------------------------------------------------------------------------
    @property
    def global_words(self) -> int:
        """Words of global memory in use, arguments included."""
        return _up(self._global_end, 4) // 4 + self.spill_slots * self.threads

    @property
    def shared_words(self) -> int:
        """Words of shared memory in use, the lowering's own included."""
        return self.shared_bytes // 4 + sum(self._reserved.get(f"{n}.words", 0) for n in ("shuffle", "reduce"))

    def check(self) -> None:
        """Raise UsageError if global memory does not suffice, LoweringError if there is more than the arguments and these end nobody
        knows where."""
        if self._arrays_end is None and self.global_words:
            raise LoweringError(f"kernel {self.kernel} needs global memory of its own, and the launch does not say where the arrays end")
        if self.global_words > self.machine.global_words:
            raise UsageError(f"kernel {self.kernel} needs {self.global_words} words of global memory, arguments included",
                             why=f"machine {self.machine.name!r} has {self.machine.global_words}",
                             fix="use smaller arrays, or a larger machine (--machine)")


def _names(operands) -> set[str]:
    out: set[str] = set()
    for o in operands:
        base = getattr(o, "base", o)
        if hasattr(base, "name"):
            out.add(base.name)
        out |= _names(getattr(o, "items", ()))
    return out


def _reached(module: Module, named: set[str]) -> set[str]:
    """Variables that are named, or whose address is in the initialiser of one that is."""
    out, work = set(), list(named)
    while work:
        name = work.pop()
        if name in module.globals and name not in out:
            out.add(name)
            work += [a.symbol.name for a in module.globals[name].init_addresses]
    return out
