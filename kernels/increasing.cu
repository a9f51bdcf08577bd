// Length of the longest increasing subsequence: a lane an element, the best predecessor found by a butterfly of maxima.
// qgpu: {"kernel": "increasing", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"type": "i32", "data": [9, 47, 12, 56, 53, 52, 34, 6, 17, 48, 21, 41]}, {"type": "i32", "zeros": 1}, 12], "expect": [null, [5], null]}

__global__ void increasing(const int *in, int *out, int n)
{
    int lane = threadIdx.x;
    int own = lane < n ? in[lane] : 0;
    int length = 0;
    for (int i = 0; i < n; i++) {
        int last = __shfl_sync(0xffffffff, own, i);
        int best = own < last && lane < i ? length : 0;
        for (int mask = 16; mask > 0; mask >>= 1)
            best = max(best, __shfl_xor_sync(0xffffffff, best, mask));
        if (lane == i)
            length = best + 1;
    }
    for (int mask = 16; mask > 0; mask >>= 1)
        length = max(length, __shfl_xor_sync(0xffffffff, length, mask));
    if (lane == 0)
        *out = length;
}
