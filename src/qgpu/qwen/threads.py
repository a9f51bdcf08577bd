"""How Numba's threads wait for one another; to be imported before any kernel.

GNU OpenMP threads spin while they wait, by default. On a machine that does anything else that is ruinous: a spinning
thread uses up the very core that the one it waits for needs (with two cores and three other busy processes a token took
6 times as long). Asked to wait passively they sleep instead, and waking costs a few microseconds. The request has to
be in the environment before OpenMP is loaded; a setting of the user's own is left alone.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
