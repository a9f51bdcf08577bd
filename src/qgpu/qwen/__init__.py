"""A Qwen3.5 forward pass without a framework."""
