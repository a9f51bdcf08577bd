// The xoshiro128** generator: four words of state a thread, loaded and stored as a vector.
// qgpu: {"kernel": "xoshiro", "grid": [1, 1, 1], "block": [4, 1, 1], "args": [{"type": "u32", "data": [1, 2, 3, 4, 3432174397, 1399756255, 1032911788, 494189852, 2625655523, 2150145586, 3655527565, 4111039311, 3493334267, 3589276944, 785437962, 1380755855]}, {"type": "u32", "zeros": 16}, 4], "expect": [[27274249, 25704967, 31982592, 12605441, 2214576185, 1060891993, 3715402967, 1308232029, 822051348, 1191479864, 2684747791, 2834039086, 1522614781, 2247397067, 3046220434, 219288066], [11520, 0, 5927040, 70819200, 942414928, 2393070534, 382396320, 3708354090, 2447861568, 64494037, 4015234677, 3574519438, 2557601990, 2942945859, 515552806, 1617614088], null]}

__device__ __forceinline__ unsigned rotate(unsigned x, int n)
{
    return x << n | x >> (32 - n);
}

__global__ void xoshiro(uint4 *states, unsigned *out, int n)
{
    uint4 s = states[threadIdx.x];
    for (int i = 0; i < n; i++) {
        out[n * threadIdx.x + i] = rotate(s.y * 5, 7) * 9;
        unsigned t = s.y << 9;
        s.z ^= s.x;
        s.w ^= s.y;
        s.y ^= s.z;
        s.x ^= s.w;
        s.z ^= t;
        s.w = rotate(s.w, 11);
    }
    states[threadIdx.x] = s;
}
