// Inverses by the extended Euclidean algorithm; 0 where there is none.
// qgpu: {"kernel": "mod_inverse", "grid": [1, 1, 1], "block": [6, 1, 1], "args": [{"type": "i32", "data": [3, 10, 7, 65520, 12, 1]}, {"type": "i32", "data": [11, 17, 26, 65521, 18, 2]}, {"type": "i32", "zeros": 6}], "expect": [null, null, [4, 12, 15, 65520, 0, 1]]}

__global__ void mod_inverse(const int *a, const int *modulus, int *out)
{
    int i = threadIdx.x;
    int r = a[i], next_r = modulus[i], s = 1, next_s = 0;
    while (next_r != 0) {
        int q = r / next_r;
        int t = r - q * next_r;
        r = next_r;
        next_r = t;
        t = s - q * next_s;
        s = next_s;
        next_s = t;
    }
    out[i] = r == 1 ? (s < 0 ? s + modulus[i] : s) : 0;
}
