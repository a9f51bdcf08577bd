// Locks that nobody waits for: a thread takes its seat if it is free, or else is counted as turned away.
// qgpu: {"kernel": "try_lock", "grid": [1, 1, 1], "block": [64, 1, 1], "args": [{"type": "i32", "data": [5, 6, 3, 5, 3, 3, 2, 0, 1, 2, 3, 1, 5, 5, 0, 2, 3, 2, 1, 3, 5, 2, 6, 1, 0, 6, 2, 4, 4, 4, 3, 3, 5, 0, 5, 3, 6, 0, 2, 5, 5, 6, 0, 6, 2, 6, 4, 2, 3, 6, 6, 3, 2, 3, 4, 6, 6, 4, 0, 1, 3, 0, 1, 1]}, {"type": "i32", "data": [-1, -1, -1, -1, -1, -1, -1]}, {"type": "i32", "zeros": 7}, {"type": "i32", "zeros": 7}], "expect": [null, [0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1], [7, 6, 9, 12, 5, 8, 10]]}

__global__ void try_lock(const int *seat, int *owner, int *seated, int *turned_away)
{
    int s = seat[threadIdx.x];
    if (atomicCAS(&owner[s], -1, 0) == -1)
        seated[s] += 1;
    else
        atomicAdd(&turned_away[s], 1);
}
