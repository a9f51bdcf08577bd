// Keeps the positive elements, in order: a ballot says who keeps, the ones before a lane say where.
// qgpu: {"kernel": "compact", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"type": "i32", "data": [-14, 19, 13, -5, -3, -4, -2, -16, 8, -1, 9, 5, 5, -13, -4, -6, 0, 2, -4, 3, 20, 20, 13, -11, -10, 15, -3, -10, -20, -16, -13, 18, 1, -19, -15, -3, -7, 4, 5, 17, 8, 18, -14, -13, 17, 17, 20, 20, 3, -9, -14, 11, 12, -8, -3, 8, 19, -7, 11, -2, 12, -4, -14, -13, -15, -3, -3, -13, -19, -10, 6, -13, 13, 17, -15]}, {"type": "i32", "zeros": 75}, {"type": "i32", "zeros": 1}, 75], "expect": [null, [19, 13, 8, 9, 5, 5, 2, 3, 20, 20, 13, 15, 18, 1, 4, 5, 17, 8, 18, 17, 17, 20, 20, 3, 11, 12, 8, 19, 11, 12, 6, 13, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [33], null]}

__global__ void compact(const int *in, int *out, int *count, int n)
{
    int lane = threadIdx.x;
    int base = 0;
    for (int first = 0; first < n; first += 32) {
        int i = first + lane;
        int v = i < n ? in[i] : 0;
        unsigned keep = __ballot_sync(0xffffffff, v > 0);
        if (v > 0)
            out[base + __popc(keep & ((1u << lane) - 1))] = v;
        base += __popc(keep);
    }
    if (lane == 0)
        *count = base;
}
