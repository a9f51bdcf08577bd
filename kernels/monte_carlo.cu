// Darts at a quarter circle: three throws a thread, hits counted by ballots and a 64-bit atomic.
// qgpu: {"kernel": "monte_carlo", "grid": [2, 1, 1], "block": [64, 1, 1], "args": [{"type": "u64", "data": [0]}, 3, 2024], "expect": [[295], null, null]}

__global__ void monte_carlo(unsigned long long *hits, int throws, unsigned seed)
{
    unsigned state = seed + 2654435769u * (blockIdx.x * blockDim.x + threadIdx.x);
    for (int i = 0; i < throws; i++) {
        state = state * 1664525u + 1013904223u;
        unsigned x = state >> 22, y = state >> 12 & 1023;
        unsigned inside = __ballot_sync(0xffffffff, x * x + y * y < 1024 * 1024);
        if (threadIdx.x % warpSize == 0)
            atomicAdd(hits, (unsigned long long)__popc(inside));
    }
}
