// Products in the field of 256 elements that AES uses.
// qgpu: {"kernel": "gf256", "grid": [1, 1, 1], "block": [16, 1, 1], "args": [{"type": "u8", "data": [116, 150, 112, 117, 11, 187, 197, 132, 173, 219, 172, 238, 122, 233, 0, 83]}, {"type": "u8", "data": [95, 119, 244, 100, 52, 233, 77, 14, 108, 216, 61, 73, 78, 193, 216, 202]}, {"type": "u8", "zeros": 16}], "expect": [null, null, [223, 139, 57, 169, 231, 143, 51, 121, 25, 25, 79, 76, 83, 49, 0, 1]]}

__global__ void gf256(const unsigned char *a, const unsigned char *b, unsigned char *out)
{
    unsigned char x = a[threadIdx.x], y = b[threadIdx.x], product = 0;
    while (y) {
        if (y & 1)
            product ^= x;
        x = x << 1 ^ (x & 0x80 ? 0x1b : 0);
        y >>= 1;
    }
    out[threadIdx.x] = product;
}
