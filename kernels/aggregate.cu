// Warp-aggregated atomics: one lane reserves room for all that have something, every one gets a slot of its own.
// qgpu: {"kernel": "aggregate", "grid": [2, 1, 1], "block": [64, 1, 1], "args": [{"type": "i32", "data": [66, 53, 38, 46, 37, 22, 98, 90, 90, 69, 84, 35, 14, 3, 31, 49, 95, 53, 32, 64, 40, 81, 87, 92, 51, 17, 70, 7, 17, 25, 19, 90, 68, 71, 87, 26, 42, 69, 15, 91, 81, 8, 39, 52, 10, 64, 60, 81, 76, 18, 87, 52, 64, 43, 2, 55, 47, 73, 6, 96, 94, 45, 6, 61, 47, 74, 99, 0, 51, 30, 14, 71, 27, 31, 67, 46, 7, 34, 8, 35, 24, 95, 77, 71, 68, 70, 16, 32, 84, 39, 44, 40, 21, 42, 12, 73, 74, 34, 42, 1, 6, 96, 44, 2, 59, 95, 34, 60, 81, 6, 93, 25, 39, 33, 9, 95, 91, 62, 2, 79]}, {"type": "u32", "zeros": 1}, {"type": "u8", "zeros": 120}, 120], "expect": [null, [45], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], null]}

__global__ void aggregate(const int *in, unsigned *count, unsigned char *taken, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x & 31;
    bool mine = i < n && in[i] % 3 == 0;
    unsigned who = __ballot_sync(0xffffffff, mine);
    if (mine) {
        int leader = __ffs(who) - 1;
        unsigned base = 0;
        if (lane == leader)
            base = atomicAdd(count, __popc(who));
        base = __shfl_sync(who, base, leader);
        taken[base + __popc(who & ((1u << lane) - 1))] = 1;
    }
}
