// Counts on both sides of a branch: the lanes that are there find one another with __activemask, and one of them adds.
// qgpu: {"kernel": "filter_count", "grid": [1, 1, 1], "block": [64, 1, 1], "args": [{"type": "i32", "data": [-47, 33, 42, -15, -48, 11, 20, -6, -20, 5, -47, -42, -12, -34, 26, -12, 13, -14, -12, 5, -7, 0, -26, 9, -1, -11, 43, -46, 16, -5, -28, 29, 47, -22, 27, -16, 32, 13, 37, 9, -29, -15, 2, 35, -15, 37, -26, -26, 38, -48, -46, 7, -28, -46, 40, 22, 45, -12, 17, 28, -34, -31, -47, -29]}, {"type": "i32", "zeros": 2}], "expect": [null, [35, 29]]}

__device__ void count(int *counter)
{
    unsigned here = __activemask();
    if (__popc(here & ((1u << threadIdx.x % 32) - 1)) == 0)
        atomicAdd(counter, __popc(here));
}

__global__ void filter_count(const int *in, int *counters)
{
    if (in[threadIdx.x] < 0)
        count(&counters[0]);
    else
        count(&counters[1]);
}
