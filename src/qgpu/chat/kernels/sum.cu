// Adds n numbers to a total of 64 bits on four lanes; over: the total is beyond 32 bits.

__global__ void sum(const int *a, long long *total, int *over, int n)
{
    int lane = threadIdx.x;
    long long mine = 0;
#pragma unroll 1
    for (int i = lane; i < n; i += 4)
        mine += a[i];
    mine += __shfl_down_sync(0xffffffff, mine, 2, 4);
    mine += __shfl_down_sync(0xffffffff, mine, 1, 4);
    if (lane == 0) {
        mine += *total;
        *total = mine;
        *over = mine != (int)mine;
    }
}
