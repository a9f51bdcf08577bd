// Inclusive prefix sum by Hillis and Steele: log n rounds between two buffers of dynamic shared memory.
// qgpu: {"kernel": "scan_hillis_steele", "grid": [1, 1, 1], "block": [48, 1, 1], "shared_bytes": 384, "args": [{"type": "i32", "data": [9, 28, -3, -16, -33, -27, 36, -50, -7, 14, 9, 27, -40, -8, 20, 28, 39, -45, 43, -2, -29, 40, 7, 42, 4, -30, -29, -20, -44, -36, -34, 14, 25, -42, 49, 38, -1, 45, -37, -13, -24, 36, -22, 42, 3, -39, 48, -16]}, {"type": "i32", "zeros": 48}, 48], "expect": [null, [9, 37, 34, 18, -15, -42, -6, -56, -63, -49, -40, -13, -53, -61, -41, -13, 26, -19, 24, 22, -7, 33, 40, 82, 86, 56, 27, 7, -37, -73, -107, -93, -68, -110, -61, -23, -24, 21, -16, -29, -53, -17, -39, 3, 6, -33, 15, -1], null]}

__global__ void scan_hillis_steele(const int *in, int *out, int n)
{
    extern __shared__ int buffer[];
    int t = threadIdx.x;
    int *from = buffer, *to = buffer + n;
    from[t] = in[t];
    __syncthreads();
    for (int d = 1; d < n; d *= 2) {
        to[t] = t >= d ? from[t] + from[t - d] : from[t];
        __syncthreads();
        int *other = from;
        from = to;
        to = other;
    }
    out[t] = from[t];
}
