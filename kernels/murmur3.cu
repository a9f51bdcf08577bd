// MurmurHash3 (32 bits) of eight bytes, each thread with a seed of its own.
// qgpu: {"kernel": "murmur3", "grid": [1, 1, 1], "block": [8, 1, 1], "args": [{"type": "u32", "data": [4249642349, 1607779924, 2571515039, 1472442089, 1631867927, 2721454591, 953466727, 3474735288, 1919941782, 3317439297, 1091002122, 1489980190, 947607201, 3657853278, 2728173867, 793532271]}, {"type": "u32", "data": [0, 1, 2, 3, 3735928559, 5, 6, 4294967295]}, {"type": "u32", "zeros": 8}], "expect": [null, null, [2232473710, 1202607222, 124223310, 144471906, 1594986290, 713765789, 2595512648, 2521460600]]}

__device__ unsigned rotate(unsigned x, int n)
{
    return __funnelshift_l(x, x, n);
}

__global__ void murmur3(const uint2 *keys, const unsigned *seeds, unsigned *out)
{
    uint2 key = keys[threadIdx.x];
    unsigned h = seeds[threadIdx.x];
    for (int i = 0; i < 2; i++) {
        unsigned k = (i == 0 ? key.x : key.y) * 0xcc9e2d51u;
        h ^= rotate(k, 15) * 0x1b873593u;
        h = rotate(h, 13) * 5 + 0xe6546b64u;
    }
    h ^= 8;
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    out[threadIdx.x] = h ^ h >> 16;
}
