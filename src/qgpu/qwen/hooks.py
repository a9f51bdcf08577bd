"""Published names for the model's internal values.

A hook is called as ``hook(name, value)`` with a float32 array each time the named value is computed, for prefill and
for every generated token alike. If it returns an array, that array takes the value's place; None leaves it alone.

The names follow TransformerLens. n tokens, D hidden, Hk/Hv key and value heads of a linear layer, Dk/Dv their sizes, C
convolution channels, H/G query and key-value heads of a full layer, E its head size, I the MLP's inner size, T all
positions so far:

    hook_embed                                   (n, D)
    blocks.{i}.hook_resid_pre, _mid, _post       (n, D)
    blocks.{i}.ln1.hook_normalized               (n, D)     likewise ln2, before the MLP
    blocks.{i}.linear_attn.hook_in               (n, D)     linear layers
      .hook_q_pre_conv, .hook_k_pre_conv         (n, Hk, Dk)
      .hook_v_pre_conv                           (n, Hv, Dv)
      .hook_conv_out                             (n, C)     after silu
      .hook_q, .hook_k                           (n, Hk, Dk)
      .hook_v                                    (n, Hv, Dv)
      .hook_beta, .hook_log_decay                (n, Hv)
      .hook_recurrence_out                       (n, Hv, Dv)
      .hook_state                                (Hv, Dk, Dv)  after the last token
      .hook_gate_input                           (n, Hv, Dv)
      .hook_normed_gated                         (n, Hv, Dv)  what out_proj reads
      .hook_out                                  (n, D)
    blocks.{i}.attn.hook_in                      (n, D)     full layers
      .hook_q, .hook_gate                        (n, H, E)  q after its norm
      .hook_k, .hook_v                           (n, G, E)
      .hook_rot_q                                (n, H, E)
      .hook_rot_k                                (n, G, E)
      .hook_attn_scores, .hook_pattern           (H, n, T)
      .hook_z                                    (n, H, E)  before the output gate
      .hook_out                                  (n, D)
    blocks.{i}.mlp.hook_pre, .hook_pre_linear    (n, I)     gate and up
      .hook_post                                 (n, I)
    blocks.{i}.hook_mlp_out                      (n, D)
    ln_final.hook_normalized                     (n, D)
    unembed.hook_out                             (n, vocab)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
Hook = Callable[[str, F32], "F32 | None"]


class Tap:
    """Calls a hook with names under a prefix; without a hook it does nothing."""

    def __init__(self, hook: Hook | None, prefix: str = "") -> None:
        self.hook, self.prefix = hook, prefix

    def under(self, name: str) -> Tap:
        """A tap for names below ``name``."""
        return Tap(self.hook, f"{self.prefix}{name}.")

    def __call__(self, name: str, value: F32) -> F32:
        """The value, or what the hook wants in its place (same shape, made float32)."""
        if self.hook is None:
            return value
        changed = self.hook(self.prefix + name, value)
        if changed is None:
            return value
        changed = np.asarray(changed, np.float32)
        if changed.shape != value.shape:
            raise ValueError(f"{self.prefix}{name}: the hook returned shape {changed.shape}, not {value.shape}")
        return changed


class Recorder:
    """A hook that keeps every value it sees, in order: ``recorder["blocks.0.hook_resid_pre"]`` is a list of arrays.

    only: keep just the names for which it returns True.
    """

    def __init__(self, only: Callable[[str], bool] = lambda name: True) -> None:
        self.only = only
        self.values: dict[str, list[F32]] = {}

    def __call__(self, name: str, value: F32) -> None:
        if self.only(name):
            self.values.setdefault(name, []).append(value.copy())

    def __getitem__(self, name: str) -> list[F32]:
        return self.values[name]
