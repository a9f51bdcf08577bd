// A Bloom filter of 256 bits: three hashes a key set bits with atomicOr; queries answer "perhaps" or "no".
// qgpu: {"kernel": "bloom_filter", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"type": "u32", "data": [4074230799, 358847448, 2542737575, 1819981257, 2276710670, 824621507, 1909428963, 106373326, 3049461993, 1809247958, 3153403978, 247194832, 3363399025, 2530266111, 2825713588, 2667138010, 2456922223, 2036099795, 3083417152, 2758994527]}, {"type": "u32", "data": [824621507, 1909428963, 106373326, 3049461993, 1809247958, 3059489832, 784226196, 4287591260, 833633749, 3034672244, 3289699229, 1895703012, 496471436, 2220044871, 4115269462, 1308251237, 3266562914, 1311503482, 3838372402, 3971265140, 1357932743, 298974518, 416203899, 3431984270, 4260513027, 3692498250, 3190237588, 3971357879, 614611619, 2059658339, 564139475, 2170870844]}, {"type": "u32", "zeros": 8}, {"type": "u8", "zeros": 32}, 20], "expect": [null, null, [168006145, 67201024, 1278218240, 307315982, 1350568000, 201984004, 2718040128, 145760336], [1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], null]}

__device__ __forceinline__ unsigned mix(unsigned x, unsigned round)
{
    x = (x ^ (x >> 15)) * (0x85ebca6bu + 2 * round);
    return (x ^ (x >> 13)) & 255;
}

__global__ void bloom_filter(const unsigned *keys, const unsigned *queries, unsigned *filter, unsigned char *perhaps, int n)
{
    int t = threadIdx.x;
    if (t < n)
        for (int round = 0; round < 3; round++) {
            unsigned bit = mix(keys[t], round);
            atomicOr(&filter[bit / 32], 1u << bit % 32);
        }
    __syncthreads();
    bool all = true;
    for (int round = 0; round < 3 && all; round++) {
        unsigned bit = mix(queries[t], round);
        all = filter[bit / 32] >> bit % 32 & 1;
    }
    perhaps[t] = all;
}
