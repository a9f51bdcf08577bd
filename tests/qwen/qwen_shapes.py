"""Small configs that between them have every kind of layer, ratio of heads and awkward size."""

from qgpu.qwen.config import FULL, LINEAR, Config

SMALL = dict(
    vocab_size=97,
    hidden_size=64,
    intermediate_size=48,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    rope_theta=1e7,
    linear_key_head_dim=16,
    linear_value_head_dim=16,
)
CONFIGS = {
    "16/16 tied": Config(**SMALL, linear_num_key_heads=16, linear_num_value_heads=16, tie_word_embeddings=True),
    "16/32 untied": Config(**SMALL, linear_num_key_heads=16, linear_num_value_heads=32),
    "odd sizes": Config(
        vocab_size=61,
        hidden_size=72,
        intermediate_size=37,
        num_hidden_layers=3,
        layer_types=(FULL, LINEAR, LINEAR),
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=24,
        attention_bias=True,
        linear_conv_kernel_dim=3,
        linear_key_head_dim=20,
        linear_value_head_dim=12,
        linear_num_key_heads=3,
        linear_num_value_heads=9,
    ),
    "float32": Config(**SMALL, linear_num_key_heads=2, linear_num_value_heads=4, dtype="float32"),
}
