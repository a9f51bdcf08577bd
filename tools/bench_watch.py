"""What the panel costs a launch: generated tokens a second with `--watch` and without, in turn, and their ratio.

    python tools/bench.py watch [--pairs N] [--size COLUMNSxROWS] [--machine NAME]

The panel is `qgpu watch` in its own process on a pseudo-terminal of that size, whose output is read and dropped. Beside the speeds,
which depend on what else the computer does, it prints the processor time that the launching process spent on a token.
The ratio that may not fall below 0.9 is the last line. POSIX only.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
KERNEL = HERE.parent / "kernels" / "collatz.cu"
STARTS = [27, 97, 703, 871, 6171, 2919, 1161, 313] * 4
"""Long ways down to 1: some ten thousand tokens."""
SETTLE_SECONDS = 5.0
"""Until the panel has drawn itself and is idle."""


def terminal(folder: str, columns: int, rows: int) -> int:
    """Run the panel on a pseudo-terminal and drop what it draws. Its own process: `bench_watch.py --terminal ...`."""
    import pty
    pid, master = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.environ["TERM"] = "xterm-256color"
        os.execv(sys.executable, [sys.executable, "-m", "qgpu", "watch", folder])
    drawn, begin = 0, time.perf_counter()
    try:
        while data := os.read(master, 1 << 16):
            drawn += len(data)
    except OSError:  # the panel has closed
        pass
    _, status, used = os.wait4(pid, 0)
    print(drawn, (used.ru_utime + used.ru_stime) / (time.perf_counter() - begin))
    return os.waitstatus_to_exitcode(status)


def measure(pairs: int, size: tuple[int, int], machine_name: str) -> float:
    """Launch in turn with and without the panel; print, and return the ratio: the median over the pairs, neighbours in time."""
    import numpy as np

    import qgpu
    from qgpu.engine import make_engine
    from qgpu.machine.description import PRESETS
    from qgpu.monitor.live import StreamWriter
    machine = PRESETS[machine_name]
    engine = make_engine(machine)
    speeds: dict[bool, list[float]] = {False: [], True: []}
    cpu: dict[bool, list[float]] = {False: [], True: []}

    def one(watched: bool, writer: StreamWriter) -> None:
        engine.reset()
        args = [np.array(STARTS, np.uint32), np.zeros(len(STARTS), np.int32)]
        begin = time.process_time()
        result = qgpu.launch(KERNEL, "collatz", 1, len(STARTS), args, machine=machine, engine=engine, tap=writer.tap if watched else None)
        cpu[watched].append((time.process_time() - begin) / len(result.tokens) * 1e6)
        speeds[watched].append(result.speed)
        writer.end()

    with tempfile.TemporaryDirectory() as folder:
        writer = StreamWriter(folder)
        one(True, writer)  # compiles what is compiled at first use, and gives the panel a launch to begin with
        columns, rows = map(str, size)
        panel = subprocess.Popen([sys.executable, __file__, "--terminal", folder, columns, rows], stdout=subprocess.PIPE)
        time.sleep(SETTLE_SECONDS)
        for kept in (speeds, cpu):
            kept[True].clear()
        for k in range(pairs):
            for watched in ((False, True), (True, False))[k % 2]:
                one(watched, writer)
                print(f"  {'with' if watched else 'without':<8}{speeds[watched][-1]:>10,.0f} tokens/s "
                      f"{cpu[watched][-1]:>10,.1f} us of processor time a token")
        alive = panel.poll() is None
        writer.close_readers()
        said = panel.communicate()[0].split()
    if not alive or not said:
        raise SystemExit("the panel did not run")
    drawn, share = int(said[0]), float(said[1])
    median = {w: statistics.median(speeds[w]) for w in speeds}
    print(f"median: {median[False]:,.0f} tokens/s without the panel, {median[True]:,.0f} with it ({size[0]}x{size[1]}, {drawn:,} bytes drawn); "
          f"best: {max(speeds[False]):,.0f} and {max(speeds[True]):,.0f}; {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    print(f"the panel used {share:.0%} of a processor; its start, launches that are prepared and its end included")
    print(f"processor time a token: {statistics.median(cpu[True]) / statistics.median(cpu[False]):.3f} times")
    ratio = statistics.median(a / b for a, b in zip(speeds[True], speeds[False]))
    print(f"speed with the panel is {ratio:.3f} of that without")
    return ratio


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["--terminal"]:
        return terminal(arguments[1], int(arguments[2]), int(arguments[3]))
    parser = argparse.ArgumentParser(description="tokens a second with and without the panel")
    parser.add_argument("--pairs", type=int, default=5, help="launches of each kind (default: 5)")
    parser.add_argument("--size", default="100x30", help="columns and rows of the panel (default: 100x30)")
    parser.add_argument("--machine", default="article", help="a preset (default: article)")
    options = parser.parse_args(arguments)
    columns, rows = map(int, options.size.split("x"))
    measure(options.pairs, (columns, rows), options.machine)
    return 0


if __name__ == "__main__":
    sys.exit(main())
