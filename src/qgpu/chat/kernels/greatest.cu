// The largest of n numbers and of what was found before, on four lanes.

__global__ void greatest(const int *a, int *best, int n)
{
    int lane = threadIdx.x, mine = *best;
#pragma unroll 1
    for (int i = lane; i < n; i += 4)
        mine = max(mine, a[i]);
    mine = max(mine, __shfl_xor_sync(0xffffffff, mine, 2, 4));
    mine = max(mine, __shfl_xor_sync(0xffffffff, mine, 1, 4));
    if (lane == 0)
        *best = mine;
}
