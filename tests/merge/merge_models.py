"""Small random models to merge into, and a machine that compiles in two seconds."""

import dataclasses
import json
from pathlib import Path

import numpy as np

from qgpu.bf16 import encode
from qgpu.machine.description import Machine
from qgpu.qwen import synthetic
from qgpu.qwen.config import Config

TINY = Machine("tiny", lanes=2, registers=7, stages=1, blocks=16, global_words=30, warps=2, stage_mul=(), stage_shift=(1,),
               hidden=2048, heads=8)
CONFIG = Config(vocab_size=400, hidden_size=2048, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4,
                num_key_value_heads=2, head_dim=64, linear_num_key_heads=8, linear_num_value_heads=8, tie_word_embeddings=True,
                eos_token_ids=(7,))
ARTICLE_CONFIG = dataclasses.replace(CONFIG, vocab_size=3000, hidden_size=2048, intermediate_size=256, num_attention_heads=8,
                                     head_dim=256, linear_num_key_heads=16, linear_num_value_heads=16)
"""The hidden size and heads of a 2B model."""

REMAINDER = """__global__ void remainder(const int *in, int *out) {
    int i = threadIdx.x, x = in[i];
    #pragma unroll 1
    while (x > 2) x -= 3;
    out[i] = x;
}
"""
"""Threads leave the loop at different times."""


def make_base(folder, cfg=CONFIG, seed=0, embed=None, multimodal=False, shards=1, tokenizer=False, edit=None):
    """Write a random model and return its folder.

    embed: (vocab, D) float32 in place of the random embedding. multimodal: the release's layout, with vision and mtp tensors.
    edit: called with the tensors before they are written.
    """
    folder = Path(folder)
    weights = synthetic.random_weights(cfg, seed)
    if embed is not None:
        tied = weights.head is weights.embed
        weights.embed = encode(embed)
        weights.head = weights.embed if tied else weights.head
    tensors = synthetic.tensors_of(cfg, weights, "model.language_model." if multimodal else "model.")
    config = synthetic.config_dict(cfg)
    if multimodal:
        rng = np.random.default_rng(seed + 1)
        for name, shape in (("model.visual.patch_embed.proj.weight", (8, 3, 2, 4, 4)), ("model.visual.blocks.0.norm1.weight", (8,)),
                            ("mtp.fc.weight", (16, 32)), ("mtp.layers.0.input_layernorm.weight", (16,))):
            tensors[name] = encode(rng.standard_normal(shape).astype(np.float32))
        inner = {k: v for k, v in config.items() if k != "architectures"}
        config = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": inner,
                  "tie_word_embeddings": cfg.tie_word_embeddings, "image_token_id": 11, "vision_config": {"depth": 1, "oddity": [1, 2.5]},
                  "a_field_of_tomorrow": {"x": None}}
    if edit:
        edit(tensors)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    names, index = list(tensors), {}
    for k in range(shards):
        name = "model.safetensors" if shards == 1 else f"model-{k + 1:05d}-of-{shards:05d}.safetensors"
        part = names[k::shards]
        synthetic.write_safetensors(folder / name, {n: tensors[n] for n in part})
        index |= dict.fromkeys(part, name)
    if shards > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 7, "top_k": 20, "suppress_tokens": [5]}))
    (folder / "LICENSE").write_text("a licence\n")
    if tokenizer:
        write_tokenizer(folder, cfg.vocab_size - 20)
    return folder


def write_tokenizer(folder, size):
    """A byte-pair tokenizer of `size` tokens, the last of them special."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {c: i for i, c in enumerate(letters)}
    for i in range(len(vocab), size - 1):
        vocab[f"Ġword{i}"] = i
    t = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.add_special_tokens(["<|endoftext|>"])
    t.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>", "added_tokens_decoder": {
        str(size - 1): {"content": "<|endoftext|>", "special": True}}}))
