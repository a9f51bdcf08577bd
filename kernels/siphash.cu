// SipHash-2-4 of 15 bytes: 64-bit additions, rotations and exclusive ors.
// qgpu: {"kernel": "siphash", "grid": [1, 1, 1], "block": [2, 1, 1], "args": [{"type": "u64", "data": [506097522914230528, 1084818905618843912]}, {"type": "u8", "data": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 97, 116, 116, 97, 99, 107, 32, 111, 110, 32, 104, 97, 115, 104, 32]}, {"type": "u64", "zeros": 2}], "expect": [null, null, [11613035633349379557, 12504007756749815130]]}

__device__ __forceinline__ unsigned long long rotate(unsigned long long x, int n)
{
    return x << n | x >> (64 - n);
}

__global__ void siphash(const unsigned long long *key, const unsigned char *messages, unsigned long long *out)
{
    unsigned long long v0 = key[0] ^ 0x736f6d6570736575ULL, v1 = key[1] ^ 0x646f72616e646f6dULL;
    unsigned long long v2 = key[0] ^ 0x6c7967656e657261ULL, v3 = key[1] ^ 0x7465646279746573ULL;
    const unsigned char *message = messages + 15 * threadIdx.x;
    for (int word = 0; word < 3; word++) {
        unsigned long long m = 0;
        if (word < 2) {
            for (int i = 7; i >= 0; i--) {
                int at = 8 * word + i;
                m = m << 8 | (at < 15 ? message[at] : 15);
            }
            v3 ^= m;
        } else {
            v2 ^= 255;
        }
        int rounds = word < 2 ? 2 : 4;
        for (int r = 0; r < rounds; r++) {
            v0 += v1;
            v1 = rotate(v1, 13) ^ v0;
            v0 = rotate(v0, 32);
            v2 += v3;
            v3 = rotate(v3, 16) ^ v2;
            v0 += v3;
            v3 = rotate(v3, 21) ^ v0;
            v2 += v1;
            v1 = rotate(v1, 17) ^ v2;
            v2 = rotate(v2, 32);
        }
        v0 ^= m;
    }
    out[threadIdx.x] = v0 ^ v1 ^ v2 ^ v3;
}
