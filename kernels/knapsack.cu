// The best value for every capacity below 32: one round an item, between two rows of shared memory.
// qgpu: {"kernel": "knapsack", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"type": "i32", "data": [3, 5, 7, 4, 9, 2]}, {"type": "i32", "data": [30, 55, 68, 41, 95, 18]}, {"type": "i32", "zeros": 32}, 6], "expect": [null, null, [0, 0, 18, 30, 41, 55, 59, 73, 85, 96, 103, 114, 126, 136, 150, 154, 168, 180, 191, 198, 209, 221, 222, 239, 248, 259, 266, 277, 289, 289, 307, 307], null]}

__global__ void knapsack(const int *weight, const int *value, int *best, int items)
{
    __shared__ int row[2][32];
    int capacity = threadIdx.x, now = 0;
    row[0][capacity] = 0;
    for (int i = 0; i < items; i++) {
        __syncthreads();
        int keep = row[now][capacity];
        if (capacity >= weight[i])
            keep = max(keep, row[now][capacity - weight[i]] + value[i]);
        now ^= 1;
        row[now][capacity] = keep;
    }
    best[capacity] = row[now][capacity];
}
