"""Makes tests/generators and kernels/ (for `manifest`) importable from every test folder."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / "generators"), str(Path(__file__).parent.parent / "kernels")]
