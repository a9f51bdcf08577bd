"""Ask, and let the GPU in the weights compute: expressions, tool calls, the conversation."""
