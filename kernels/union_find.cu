// Connected components without locks: a thread hooks the larger root of its edge under the smaller by compare-and-swap.
// qgpu: {"kernel": "union_find", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"type": "u8", "data": [2, 1, 18, 16, 18, 1, 2, 1, 4, 9, 10, 12, 11, 15]}, {"type": "u8", "data": [12, 18, 7, 4, 17, 0, 10, 0, 17, 16, 2, 15, 4, 14]}, {"type": "i32", "zeros": 20}, 14, 20], "expect": [null, null, [0, 0, 2, 3, 0, 5, 6, 0, 8, 0, 2, 0, 2, 13, 2, 2, 0, 0, 0, 19], null, null]}

__device__ int find(volatile int *parent, int v)
{
    while (parent[v] != v)
        v = parent[v];
    return v;
}

__global__ void union_find(const unsigned char *from, const unsigned char *to, int *component, int edges, int nodes)
{
    __shared__ int parent[32];
    int t = threadIdx.x;
    parent[t] = t;
    __syncthreads();
    if (t < edges) {
        int a = find(parent, from[t]), b = find(parent, to[t]);
        while (a != b) {
            int small = min(a, b), large = max(a, b);
            int old = atomicCAS(&parent[large], large, small);
            if (old == large)
                break;
            a = find(parent, old);
            b = find(parent, small);
        }
    }
    __syncthreads();
    if (t < nodes)
        component[t] = find(parent, t);
}
