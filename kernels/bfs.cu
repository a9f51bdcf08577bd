// Breadth-first search over compressed adjacency lists: one step for each level, until a step reaches nobody new.
// qgpu: {"kernel": "bfs", "grid": [1, 1, 1], "block": [24, 1, 1], "args": [{"type": "i32", "data": [0, 3, 5, 10, 13, 17, 18, 20, 21, 26, 29, 33, 36, 37, 41, 41, 45, 46, 47, 48, 52, 56, 56, 56, 56]}, {"type": "u8", "data": [3, 7, 10, 18, 19, 4, 9, 13, 15, 19, 0, 9, 10, 2, 8, 13, 20, 10, 11, 13, 0, 4, 11, 13, 15, 20, 2, 3, 20, 0, 3, 5, 12, 6, 8, 15, 10, 2, 4, 6, 8, 2, 8, 11, 19, 17, 16, 1, 1, 2, 15, 20, 4, 8, 9, 19]}, {"type": "i32", "zeros": 24}, 2, 24], "expect": [null, null, [3, 2, 0, 2, 1, 4, 2, 4, 2, 1, 3, 2, 4, 1, -1, 1, -1, -1, 3, 1, 2, -1, -1, -1], null, null]}

__global__ void bfs(const int *start, const unsigned char *neighbour, int *level, int source, int n)
{
    __shared__ int reached;
    int v = threadIdx.x;
    if (v < n)
        level[v] = v == source ? 0 : -1;
    int depth = 0;
    do {
        __syncthreads();
        if (v == 0)
            reached = 0;
        bool frontier = v < n && level[v] == depth;
        __syncthreads();
        if (frontier)
            for (int e = start[v]; e < start[v + 1]; e++)
                if (atomicCAS(&level[neighbour[e]], -1, depth + 1) == -1)
                    atomicAdd(&reached, 1);
        depth++;
        __syncthreads();
    } while (reached > 0);
}
