// Shortest paths from node 0 by Bellman and Ford: in every round each thread relaxes one edge with atomicMin.
// qgpu: {"kernel": "bellman_ford", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"type": "u8", "data": [0, 0, 0, 0, 1, 2, 3, 5, 5, 5, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]}, {"type": "u8", "data": [1, 4, 5, 6, 5, 5, 0, 1, 4, 7, 8, 9, 8, 9, 8, 9, 5, 6, 3, 6]}, {"type": "i16", "data": [14, 15, 6, 1, 5, 8, 9, 18, 6, 11, 9, 7, 5, 15, 6, 9, 20, 4, 18, 12]}, {"type": "i32", "zeros": 10}, 20, 10], "expect": [null, null, null, [0, 14, 1000000, 31, 12, 6, 1, 17, 6, 13], null, null]}

__global__ void bellman_ford(const unsigned char *from, const unsigned char *to, const short *weight, int *distance,
                             int edges, int nodes)
{
    __shared__ int now[16], next[16];
    const int far = 1000000;
    int t = threadIdx.x;
    if (t < nodes)
        now[t] = next[t] = t == 0 ? 0 : far;
    __syncthreads();
    for (int round = 1; round < nodes; round++) {
        if (t < edges && now[from[t]] < far)
            atomicMin(&next[to[t]], now[from[t]] + weight[t]);
        __syncthreads();
        if (t < nodes)
            now[t] = next[t];
        __syncthreads();
    }
    if (t < nodes)
        distance[t] = now[t];
}
