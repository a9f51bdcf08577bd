// A row of Pascal's triangle from the rows above it, a thread an entry.
// qgpu: {"kernel": "pascal", "grid": [1, 1, 1], "block": [16, 1, 1], "args": [{"type": "u16", "zeros": 16}, 15], "expect": [[1, 15, 105, 455, 1365, 3003, 5005, 6435, 6435, 5005, 3003, 1365, 455, 105, 15, 1], null]}

__global__ void pascal(unsigned short *out, int row)
{
    __shared__ unsigned short entry[16];
    int t = threadIdx.x;
    entry[t] = t == 0;
    for (int r = 1; r <= row; r++) {
        __syncthreads();
        unsigned short above = t > 0 ? entry[t - 1] : 0;
        __syncthreads();
        entry[t] += above;
    }
    out[t] = entry[t];
}
