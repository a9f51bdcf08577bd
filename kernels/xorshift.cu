// Marsaglia's 32-bit xorshift generator, a few rounds on each state.
// qgpu: {"kernel": "xorshift", "grid": [1, 1, 1], "block": [4, 1, 1], "args": [{"type": "u32", "data": [1, 2463534242, 3735928559, 4294967295]}, 5], "expect": [[2398689233, 3532304609, 1745748808, 2049502865], null]}

__global__ void xorshift(unsigned *state, int rounds)
{
    int i = threadIdx.x;
    unsigned x = state[i];
    for (int r = 0; r < rounds; r++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    state[i] = x;
}
