"""Measure the Qwen3.5 forward pass on a random model of the 2B's exact shape, beside transformers on the same machine.

    python tools/bench_qwen.py [--folder DIR] [--tokens 16] [--prompt 256] [--rounds 3] [--strict]

The model (about 4 GB) is made in DIR if it is not there yet. Each side runs in a process of its own, in turns, so that
neither's threads or memory disturb the other; the best round of each counts. Prints one table and, with --json, one object.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SHAPE = dict(
    vocab_size=248320,
    hidden_size=2048,
    intermediate_size=6144,
    num_hidden_layers=24,
    num_attention_heads=8,
    num_key_value_heads=2,
    head_dim=256,
    linear_num_key_heads=16,
    linear_num_value_heads=16,
    tie_word_embeddings=True,
    rope_theta=1e7,
)


def make(folder: Path) -> None:
    """Write the random model."""
    from qgpu.qwen.config import Config
    from qgpu.qwen.synthetic import random_weights, save, tensors_of

    cfg = Config(**SHAPE)
    save(folder, cfg, tensors_of(cfg, random_weights(cfg)))


def prompt(n: int) -> list[int]:
    """n token ids, spread over the vocabulary."""
    return [(i * 7919 + 13) % SHAPE["vocab_size"] for i in range(n)]


def measure(prefill, decode, tokens: int, n: int, first: float) -> dict:
    """Time one prefill of n tokens and then single tokens. prefill(ids) and decode(id) return the next id."""
    prefill(prompt(n))  # everything warm
    start, start_cpu = time.perf_counter(), time.process_time()
    token = prefill(prompt(n))
    prefill_seconds, prefill_cpu = time.perf_counter() - start, time.process_time() - start_cpu
    decode(token)
    each = []
    start_cpu = time.process_time()
    for _ in range(tokens):
        start = time.perf_counter()
        token = decode(token)
        each.append(time.perf_counter() - start)
    decode_cpu = (time.process_time() - start_cpu) / tokens
    each.sort()
    return {
        "load_seconds": first,
        "prefill_seconds": prefill_seconds,
        "prefill_cpu_seconds": prefill_cpu,
        "decode_seconds": each[len(each) // 2],
        "decode_cpu_seconds": decode_cpu,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def ours(folder: Path, tokens: int, n: int, strict: bool) -> dict:
    """qgpu.qwen."""
    start = time.perf_counter()
    import qgpu.qwen

    model = qgpu.qwen.load(folder, strict=strict)
    loaded = time.perf_counter() - start
    state = {}

    def prefill(ids):
        state["cache"] = model.new_cache()
        return int(model.forward(ids, state["cache"], last=True)[0].argmax())

    def decode(token):
        return int(model.forward([token], state["cache"], last=True)[0].argmax())

    return measure(prefill, decode, tokens, n, loaded)


def theirs(folder: Path, tokens: int, n: int) -> dict:
    """transformers, bf16, its default attention."""
    start = time.perf_counter()
    import torch
    from transformers import Qwen3_5ForCausalLM

    model = Qwen3_5ForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    loaded = time.perf_counter() - start
    state = {}

    def run(ids, cache):
        with torch.inference_mode():
            out = model(torch.tensor([ids]), cache=cache, use_cache=True, logits_to_keep=1)
        state["cache"] = out.cache
        return int(out.logits[0, -1].argmax())

    return measure(lambda ids: run(ids, None), lambda token: run([token], state["cache"]), tokens, n, loaded)


def bandwidth(size: int = 1 << 30) -> dict:
    """Bytes per second when every core only reads, best of five: xor of 64-bit words.

    plain: one word after another, which leaves all prefetching to the processor. ahead: eight pages at a time, asking for
    the same lines of the next eight meanwhile, which carries over where a processor's own prefetching stops.
    """
    import numba as nb
    import numpy as np
    from numba.core import types
    from numba.extending import intrinsic

    from qgpu.qwen.lanes import prefetch

    @intrinsic
    def fetch(typingctx, address):
        def codegen(context, builder, signature, args):
            prefetch(builder, args[0])
            return context.get_dummy_value()

        return types.void(types.intp), codegen

    @nb.njit(parallel=True)
    def plain(words, out):
        for i in nb.prange(out.size):
            total = np.uint64(0)
            for j in range(words.shape[1]):
                total ^= words[i, j]
            out[i] = total

    @nb.njit(parallel=True)
    def ahead(words, out):
        page, line = 512, 8  # words
        for i in nb.prange(out.size):
            row, at = words[i], words[i].ctypes.data
            total = np.uint64(0)
            for start in range(0, row.size, 8 * page):
                for j in range(0, page, line):
                    for p in range(8):
                        first = start + p * page + j
                        fetch(at + 8 * (first + 8 * page))
                        for k in range(line):
                            total ^= row[first + k]
            out[i] = total

    words = np.ones((1024, size // 8 // 1024), np.uint64)
    out = np.zeros(1024, np.uint64)
    best = {}
    for name, read in (("plain", plain), ("ahead", ahead)):
        read(words, out)
        seconds = []
        for _ in range(5):
            start = time.perf_counter()
            read(words, out)
            seconds.append(time.perf_counter() - start)
        best[name] = words.nbytes / min(seconds)
    return best


def in_process(arguments: list[str]) -> dict:
    """Run one side in a fresh process and read back its figures."""
    command = [sys.executable, __file__, *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "qgpu-random-2b")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", choices=["ours", "theirs", "bandwidth"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side == "bandwidth":
        print(json.dumps(bandwidth()))
        return
    if args.side:
        call = ours(args.folder, args.tokens, args.prompt, args.strict) if args.side == "ours" else theirs(
            args.folder, args.tokens, args.prompt
        )
        print(json.dumps(call))
        return
    if not (args.folder / "model.safetensors").exists():
        make(args.folder)
    common = ["--folder", str(args.folder), "--tokens", str(args.tokens), "--prompt", str(args.prompt)]
    runs: dict[str, list[dict]] = {"ours": [], "theirs": [], "bandwidth": []}
    for _ in range(args.rounds):
        runs["ours"].append(in_process([*common, "--side", "ours", *(["--strict"] if args.strict else [])]))
        runs["theirs"].append(in_process([*common, "--side", "theirs"]))
        runs["bandwidth"].append(in_process(["--side", "bandwidth"]))
    best = {
        side: {key: min(run[key] for run in runs[side]) for key in runs[side][0]} for side in ("ours", "theirs")
    }
    stream = {name: max(run[name] for run in runs["bandwidth"]) for name in ("plain", "ahead")}
    size = (args.folder / "model.safetensors").stat().st_size
    report = {
        **best,
        "weights_bytes": size,
        "stream_bytes_per_second": stream,
        "decode_ratio": best["theirs"]["decode_seconds"] / best["ours"]["decode_seconds"],
        "prefill_ratio": best["theirs"]["prefill_seconds"] / best["ours"]["prefill_seconds"],
        "share_of_stream": {name: size / best["ours"]["decode_seconds"] / speed for name, speed in stream.items()},
        "memory_over_weights_bytes": best["ours"]["peak_bytes"] - size,
    }
    if args.json:
        print(json.dumps(report))
        return
    for side in ("ours", "theirs"):
        b = best[side]
        print(
            f"{side:7} decode {1 / b['decode_seconds']:6.2f} tokens/s   prefill {args.prompt} tokens in "
            f"{b['prefill_seconds']:6.2f} s   (cpu {b['decode_cpu_seconds']:.3f} s a token, "
            f"{b['prefill_cpu_seconds']:.2f} s)   peak {b['peak_bytes'] / 2**30:5.2f} GiB   load {b['load_seconds']:5.1f} s"
        )
    print(f"decode ratio {report['decode_ratio']:.2f}, prefill ratio {report['prefill_ratio']:.2f}")
    for name, how in (("plain", "one word after another"), ("ahead", "asking for pages ahead")):
        share = 100 * report["share_of_stream"][name]
        print(f"streaming {stream[name] / 1e9:.1f} GB/s {how}, of which decoding uses {share:.0f} %")
    print(f"memory beyond the weights {report['memory_over_weights_bytes'] / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
