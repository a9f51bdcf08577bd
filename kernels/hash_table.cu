// Open addressing in shared memory: keys go in by compare-and-swap, then every thread looks one up.
// qgpu: {"kernel": "hash_table", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"type": "u32", "data": [354226308, 897634529, 1481263197, 897712762, 1363651996, 603994828, 1028860423, 1810926990, 463887276, 2125410162, 1702167181, 1019297214, 1734853900, 2068488541, 1100491400, 394237834, 1084659957, 1132901324, 506927180, 1693083665, 6830359, 30325367, 796816700, 2003125781]}, {"type": "u32", "data": [354226308, 897712762, 1028860423, 2125410162, 1734853900, 394237834, 506927180, 30325367, 2057738976, 1948548101, 301439264, 521016170, 50715283, 1316594022, 2144543005, 960211764, 897634529, 1363651996, 1810926990, 1702167181, 2068488541, 1084659957, 1693083665, 796816700, 1481263197, 603994828, 463887276, 1019297214, 1100491400, 1132901324, 6830359, 2003125781]}, {"type": "i32", "zeros": 32}, 24], "expect": [null, null, [0, 3, 6, 9, 12, 15, 18, 21, -1, -1, -1, -1, -1, -1, -1, -1, 1, 4, 7, 10, 13, 16, 19, 22, 2, 5, 8, 11, 14, 17, 20, 23], null]}

__global__ void hash_table(const unsigned *keys, const unsigned *queries, int *place, int n)
{
    __shared__ unsigned slot[64];
    __shared__ int value[64];
    int t = threadIdx.x;
    slot[t] = slot[t + 32] = 0;
    __syncthreads();
    if (t < n) {
        unsigned key = keys[t];
        unsigned at = (key * 2654435769u) >> 26;
        while (atomicCAS(&slot[at], 0u, key) != 0)
            at = (at + 1) & 63;
        value[at] = t;
    }
    __syncthreads();
    unsigned query = queries[t];
    unsigned at = (query * 2654435769u) >> 26;
    while (slot[at] != 0 && slot[at] != query)
        at = (at + 1) & 63;
    place[t] = slot[at] == query ? value[at] : -1;
}
