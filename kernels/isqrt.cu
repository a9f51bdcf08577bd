// Integer square root, rounded down, two bits of the argument at a time.
// qgpu: {"kernel": "isqrt", "grid": [1, 1, 1], "block": [8, 1, 1], "args": [{"type": "u32", "data": [0, 1, 15, 16, 99, 65535, 1000000, 4294967295]}, {"type": "u32", "zeros": 8}], "expect": [[0, 1, 15, 16, 99, 65535, 1000000, 4294967295], [0, 1, 3, 4, 9, 255, 1000, 65535]]}

__global__ void isqrt(const unsigned *in, unsigned *out)
{
    int i = threadIdx.x;
    unsigned rest = in[i];
    unsigned root = 0;
    for (unsigned bit = 1u << 30; bit != 0; bit >>= 2) {
        unsigned trial = root + bit;
        root >>= 1;
        if (rest >= trial) {
            rest -= trial;
            root += bit;
        }
    }
    out[i] = root;
}
