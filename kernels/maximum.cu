// Largest element: every lane takes each fourth element, a butterfly of shuffles finds the best of four.
// qgpu: {"kernel": "maximum", "grid": [1, 1, 1], "block": [4, 1, 1], "args": [{"type": "i32", "data": [-5, 17, 3, -2147483648, 99, 98, -1, 0, 41, 100, 7, -100, 12, 64, 99]}, {"type": "i32", "zeros": 1}, 15], "expect": [[-5, 17, 3, -2147483648, 99, 98, -1, 0, 41, 100, 7, -100, 12, 64, 99], [100], null]}

__global__ void maximum(const int *in, int *out, int n)
{
    int lane = threadIdx.x;
    int best = in[0];
    for (int i = lane; i < n; i += 4)
        best = max(best, in[i]);
    best = max(best, __shfl_xor_sync(0xffffffff, best, 2, 4));
    best = max(best, __shfl_xor_sync(0xffffffff, best, 1, 4));
    if (lane == 0)
        *out = best;
}
