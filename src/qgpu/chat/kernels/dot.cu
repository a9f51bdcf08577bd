// Adds a dot product of n pairs to a total on four lanes: its low 64 bits, and the sum of the products' bits from 48 up,
// which tells a total that went round 64 bits from one that fits. over: the total is beyond 32 bits (for at most 4096 pairs in all).

__global__ void dot(const int *a, const int *b, long long *total, int *high, int *over, int n)
{
    int lane = threadIdx.x, top = 0;
    long long mine = 0;
#pragma unroll 1
    for (int i = lane; i < n; i += 4) {
        long long p = (long long)a[i] * b[i];
        mine += p;
        top += (int)(p >> 48);
    }
    mine += __shfl_down_sync(0xffffffff, mine, 2, 4);
    top += __shfl_down_sync(0xffffffff, top, 2, 4);
    mine += __shfl_down_sync(0xffffffff, mine, 1, 4);
    top += __shfl_down_sync(0xffffffff, top, 1, 4);
    if (lane == 0) {
        mine += *total;
        top += *high;
        *total = mine;
        *high = top;
        *over = mine != (int)mine || top > 4096 || top < -4096;
    }
}
