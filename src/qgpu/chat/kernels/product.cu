// Multiplies a running product by n numbers on four lanes. state: its size in 32 bits, its marks (1 negative, 2 size lost, 4 zero),
// the product, and whether 32 bits hold it not.

__global__ void product(const int *a, unsigned *state, int n)
{
    int lane = threadIdx.x;
    unsigned size = lane ? 1 : state[0], marks = lane ? 0 : state[1];
#pragma unroll 1
    for (int i = lane; i < n; i += 4) {
        int x = a[i];
        unsigned long long p = (unsigned long long)size * (x < 0 ? 0u - x : x);
        size = (unsigned)p;
        marks = (marks ^ (x < 0)) | (p >> 32 ? 2 : 0) | (x ? 0 : 4);
    }
#pragma unroll 1
    for (int step = 2; step; step >>= 1) {
        unsigned other = __shfl_down_sync(0xffffffff, size, 2, 4), theirs = __shfl_down_sync(0xffffffff, marks, 2, 4);
        if (step == 1) {
            other = __shfl_down_sync(0xffffffff, size, 1, 4);
            theirs = __shfl_down_sync(0xffffffff, marks, 1, 4);
        }
        unsigned long long p = (unsigned long long)size * other;
        size = (unsigned)p;
        marks = ((marks ^ theirs) & 1) | ((marks | theirs) & 6) | (p >> 32 ? 2 : 0);
    }
    if (lane == 0) {
        unsigned negative = marks & 1;
        state[0] = size;
        state[1] = marks;
        state[2] = marks & 4 ? 0 : negative ? 0u - size : size;
        state[3] = marks & 4 ? 0 : (marks & 2) || size > 0x7fffffffu + negative;
    }
}
