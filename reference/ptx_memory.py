"""Memory of the PTX interpreter: regions of checked bytes in five state spaces, and the generic window of each.

Every access names a region or is a fault. Addresses of a space count from that space's own zero; the generic address of
global memory is the address itself, and the other spaces lie in windows at the top of the lower 4 GiB.
"""

from __future__ import annotations

from bisect import bisect_right, insort

from .ptx_values import Undefined

WINDOWS = {"local": 0xF000_0000, "shared": 0xF400_0000, "const": 0xF800_0000, "param": 0xFC00_0000}
WINDOW_BYTES = 0x0400_0000
GLOBAL_START = 0x1_0000
GAP = 256  # between regions, so that running over the end of one meets no other


class BadAccess(Exception):
    """An access that no region takes. what and why are parts of the message of a FaultError."""

    def __init__(self, what: str, why: str = "") -> None:
        self.what, self.why = what, why
        super().__init__(what)


class Region:
    """Bytes at an address. label: what a message calls it. known: one flag a byte, or None if every byte is known."""

    def __init__(self, label: str, start: int, data: bytearray, *, known: bool = True, writable: bool = True) -> None:
        self.label, self.start, self.data, self.writable = label, start, data, writable
        self.known = None if known else bytearray(len(data))
        self.end = start + len(data)

    def __lt__(self, other: "Region") -> bool:
        return self.start < other.start

    def describe(self) -> str:
        return f"{self.label} ({len(self.data)} bytes at {self.start:#x})"


class Space:
    """The regions of one state space, by address."""

    def __init__(self, name: str, first: int) -> None:
        self.name, self.next = name, first
        self.regions: list[Region] = []

    def add(self, region: Region) -> Region:
        """Put a region at its own address."""
        insort(self.regions, region)
        self.next = max(self.next, region.end)
        return region

    def allocate(self, label: str, data: bytearray, align: int, *, gap: int = GAP, known: bool = True,
                 writable: bool = True) -> Region:
        """Put a region behind all others, aligned, with a gap before it."""
        step = max(align, 1)
        start = -(-(self.next + (gap if self.regions else 0)) // step) * step
        return self.add(Region(label, start, data, known=known, writable=writable))

    def remove(self, region: Region) -> None:
        """Take a region away (a call's frame); its addresses are used again."""
        self.regions.remove(region)
        self.next = min(self.next, region.start)

    def find(self, address: int, size: int) -> Region | None:
        """The region that holds all of [address, address + size)."""
        at = bisect_right(self.regions, address, key=lambda r: r.start)
        if at and address + size <= self.regions[at - 1].end and address >= self.regions[at - 1].start:
            return self.regions[at - 1]
        return None

    def nearest(self, address: int) -> str:
        """Where an address lies with respect to the nearest region, in words."""
        if not self.regions:
            return f"there is no {self.name} memory in this launch"
        def distance(r: Region) -> int:
            return max(r.start - address, address - r.end + 1, 0)
        r = min(self.regions, key=distance)
        if address >= r.end:
            place = f"{address - r.end} bytes past the end of"
        elif address < r.start:
            place = f"{r.start - address} bytes before"
        else:
            place = f"{r.end - address} bytes before the end of"
        return f"it is {place} {r.describe()}"


class Memory:
    """What one thread can reach: its spaces, shared with other threads where CUDA shares them.

    version counts changes of content in all memories of a launch, so that a loop that changes nothing can be told.
    """

    def __init__(self, spaces: dict[str, Space], clock: "Version") -> None:
        self.spaces, self.clock = spaces, clock

    def locate(self, space: str | None, address: int, size: int, verb: str) -> tuple[Region, int]:
        """Region and offset of an access. space None: a generic address. Raises BadAccess."""
        name = space or "generic"
        own, local = space, address
        if space is None:
            own = "global"
            for window, base in WINDOWS.items():
                if base <= address < base + WINDOW_BYTES:
                    own, local = window, address - base
        what = f"{name} {verb} of {size} bytes at {address:#x}"
        if own == "global" and address < GAP and not self.spaces[own].find(local, size):
            raise BadAccess(f"{what}: a null pointer", "the address is zero or next to it")
        if local % size:
            raise BadAccess(f"{what}: misaligned", f"the address must be a multiple of {size}")
        region = self.spaces[own].find(local, size) if own in self.spaces else None
        if region is None:
            raise BadAccess(f"{what}: out of bounds", self.spaces[own].nearest(local) if own in self.spaces else "")
        return region, local - region.start

    def load(self, space: str | None, address: int, size: int, count: int, where: str) -> list[int | Undefined]:
        """`count` unsigned elements of `size` bytes each; an element with a byte never written is Undefined."""
        region, at = self.locate(space, address, size * count, "load")
        out: list[int | Undefined] = []
        for i in range(at, at + size * count, size):
            if region.known is not None and not all(region.known[i:i + size]):
                out.append(Undefined(f"{region.label} at byte {i}, read at {where} while uninitialised"))
            else:
                out.append(int.from_bytes(region.data[i:i + size], "little"))
        return out

    def store(self, space: str | None, address: int, size: int, values: list[int | Undefined]) -> None:
        """Write elements of `size` bytes. An Undefined element is allowed in local memory alone and makes it unknown."""
        region, at = self.locate(space, address, size * len(values), "store")
        if not region.writable:
            raise BadAccess(f"store to {region.label} at {address:#x}: it is read-only")
        for value in values:
            if isinstance(value, Undefined):
                region.known[at:at + size] = bytes(size)
                self.clock.count += 1
            else:
                data = value.to_bytes(size, "little")
                if region.data[at:at + size] != data or region.known is not None and not all(region.known[at:at + size]):
                    region.data[at:at + size] = data
                    self.clock.count += 1
                if region.known is not None:
                    region.known[at:at + size] = b"\1" * size
            at += size

    def may_hold_undefined(self, space: str | None, address: int) -> bool:
        """Whether an address is in local or param memory, where a spilled undefined value is no fault yet."""
        if space is not None:
            return space in ("local", "param")
        return any(WINDOWS[w] <= address < WINDOWS[w] + WINDOW_BYTES for w in ("local", "param"))


class Version:
    """Counts changes of memory content."""

    def __init__(self) -> None:
        self.count = 0
