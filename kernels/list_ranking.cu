// Distance of each node from the end of a linked list, by pointer jumping.
// qgpu: {"kernel": "list_ranking", "grid": [1, 1, 1], "block": [20, 1, 1], "args": [{"type": "u8", "data": [15, 7, 11, 10, 19, 9, 14, 6, 17, 1, 12, 13, 8, 3, 14, 18, 5, 0, 4, 16]}, {"type": "i32", "zeros": 20}, 20], "expect": [null, [11, 3, 19, 16, 8, 5, 1, 2, 13, 4, 15, 18, 14, 17, 0, 10, 6, 12, 9, 7], null]}

__global__ void list_ranking(const unsigned char *next, int *rank, int n)
{
    __shared__ int link[2][32], steps[2][32];
    int t = threadIdx.x, now = 0;
    link[0][t] = next[t];
    steps[0][t] = next[t] != t;
    __syncthreads();
    for (int reach = 1; reach < n; reach *= 2) {
        int ahead = link[now][t];
        link[now ^ 1][t] = link[now][ahead];
        steps[now ^ 1][t] = steps[now][t] + steps[now][ahead];
        now ^= 1;
        __syncthreads();
    }
    rank[t] = steps[now][t];
}
