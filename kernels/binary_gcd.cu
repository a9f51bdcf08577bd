// Stein's greatest common divisor: shifts by the number of trailing zeros, and subtractions.
// qgpu: {"kernel": "binary_gcd", "grid": [1, 1, 1], "block": [8, 1, 1], "args": [{"type": "u32", "data": [48, 0, 17, 2147483648, 4294967295, 1071, 600, 35]}, {"type": "u32", "data": [180, 5, 0, 3145728, 65535, 462, 850, 64]}, {"type": "u32", "zeros": 8}], "expect": [null, null, [12, 5, 17, 1048576, 65535, 21, 50, 1]]}

__global__ void binary_gcd(const unsigned *a, const unsigned *b, unsigned *out)
{
    unsigned x = a[threadIdx.x], y = b[threadIdx.x];
    if (x == 0 || y == 0) {
        out[threadIdx.x] = x | y;
        return;
    }
    int shift = __ffs(x | y) - 1;
    x >>= __ffs(x) - 1;
    do {
        y >>= __ffs(y) - 1;
        unsigned low = min(x, y);
        y = max(x, y) - low;
        x = low;
    } while (y != 0);
    out[threadIdx.x] = x << shift;
}
