// Square roots in fixed point with 16 fractional bits, from a 64-bit radicand, bit by bit.
// qgpu: {"kernel": "sqrt_fixed", "grid": [1, 1, 1], "block": [6, 1, 1], "args": [{"type": "u32", "data": [0, 65536, 131072, 4294967295, 1, 5000000]}, {"type": "u32", "zeros": 6}], "expect": [null, [0, 65536, 92681, 16777215, 256, 572433]]}

__global__ void sqrt_fixed(const unsigned *in, unsigned *out)
{
    unsigned long long radicand = (unsigned long long)in[threadIdx.x] << 16;
    unsigned root = 0;
    for (int bit = 23; bit >= 0; bit--) {
        unsigned trial = root | 1u << bit;
        if ((unsigned long long)trial * trial <= radicand)
            root = trial;
    }
    out[threadIdx.x] = root;
}
