// A number-theoretic transform of sixteen elements modulo 257: bit reversal, then four rounds of butterflies.
// qgpu: {"kernel": "ntt", "grid": [1, 1, 1], "block": [8, 1, 1], "args": [{"type": "u16", "data": [111, 148, 185, 222, 2, 39, 76, 113, 150, 187, 224, 4, 41, 78, 115, 152]}], "expect": [[48, 77, 246, 78, 71, 205, 26, 21, 218, 158, 153, 231, 108, 101, 190, 102]]}

__global__ void ntt(unsigned short *data)
{
    __shared__ unsigned v[16];
    int t = threadIdx.x;
    v[t] = data[__brev(t) >> 28];
    v[t + 8] = data[__brev(t + 8) >> 28];
    for (int half = 1; half < 16; half *= 2) {
        __syncthreads();
        int k = t & (half - 1);
        int low = 2 * (t - k) + k, high = low + half;
        unsigned twiddle = 1;
        for (int i = 0; i < k * (8 / half); i++)
            twiddle = twiddle * 249 % 257;  // 249 has order 16
        unsigned a = v[low], b = v[high] * twiddle % 257;
        v[low] = (a + b) % 257;
        v[high] = (a + 257 - b) % 257;
    }
    __syncthreads();
    data[t] = v[t];
    data[t + 8] = v[t + 8];
}
