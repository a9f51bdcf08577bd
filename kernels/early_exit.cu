// Linear search: a thread returns as soon as it has found its key, -1 if it never does.
// qgpu: {"kernel": "early_exit", "grid": [1, 1, 1], "block": [8, 1, 1], "args": [{"type": "i32", "data": [7, 3, 9, 3, 5, 1, 3, 8]}, {"type": "i32", "data": [3, 8, 7, 4, 1, 5]}, {"type": "i32", "zeros": 6}, 8, 6], "expect": [[7, 3, 9, 3, 5, 1, 3, 8], [3, 8, 7, 4, 1, 5], [1, 7, 0, -1, 5, 4], null, null]}

__global__ void early_exit(const int *table, const int *keys, int *place, int n, int m)
{
    int i = threadIdx.x;
    if (i >= m)
        return;
    int key = keys[i];
    for (int k = 0; k < n; k++) {
        if (table[k] == key) {
            place[i] = k;
            return;
        }
    }
    place[i] = -1;
}
