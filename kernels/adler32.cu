// Adler-32 in parallel: the sum of the bytes, and their sum weighted by how many of the prefixes contain them.
// qgpu: {"kernel": "adler32", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"type": "u8", "data": [165, 4, 135, 79, 102, 134, 44, 102, 28, 99, 12, 187, 234, 66, 178, 85, 18, 178, 15, 198, 97, 76, 164, 223, 228, 49, 10, 127, 75, 79, 126, 181, 152, 8, 128, 179, 106, 201, 14, 35, 49, 127, 50, 151, 71, 212, 244, 252, 183, 151, 48, 104, 155, 110, 82, 225, 243, 164, 133, 48, 132, 12, 17, 96, 113, 241, 166, 157, 124, 138, 72, 27, 255, 239, 122, 65, 46, 108, 225, 142, 239, 217, 132, 159, 192, 163, 248, 252, 3, 208]}, {"type": "u32", "zeros": 1}, 90], "expect": [null, [1101606058], null]}

__global__ void adler32(const unsigned char *data, unsigned *out, int n)
{
    unsigned a = 0, b = 0;
    for (int i = threadIdx.x; i < n; i += 32) {
        a += data[i];
        b += (n - i) * data[i];
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        a += __shfl_down_sync(0xffffffff, a, offset);
        b += __shfl_down_sync(0xffffffff, b, offset);
    }
    if (threadIdx.x == 0)
        *out = (n + b) % 65521 << 16 | (1 + a) % 65521;
}
