"""Makes tests/generators and kernels/ (for `manifest`) importable from every test folder.

Interrupts work in every test and in what it starts: a shell's background jobs inherit an ignored SIGINT.
"""

import signal
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / "generators"), str(Path(__file__).parent.parent / "kernels")]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
