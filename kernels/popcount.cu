// Ones of a word, counted bit by bit.
// qgpu: {"kernel": "popcount", "grid": [1, 1, 1], "block": [8, 1, 1], "args": [{"type": "u32", "data": [0, 1, 2, 3, 255, 4096, 2147483649, 4294967295]}, {"type": "i32", "zeros": 8}], "expect": [[0, 1, 2, 3, 255, 4096, 2147483649, 4294967295], [0, 1, 1, 2, 8, 1, 2, 32]]}

__global__ void popcount(const unsigned *in, int *out)
{
    int i = threadIdx.x;
    int count = 0;
    for (unsigned x = in[i]; x != 0; x >>= 1)
        count += x & 1;
    out[i] = count;
}
