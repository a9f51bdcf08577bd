// Remainders with the divisor's sign, element by element. No divisor is 0.

__global__ void modulo(const int *a, const int *b, int *out, int n)
{
    int i = threadIdx.x;
    if (i < n) {
        int x = a[i], y = b[i];
        unsigned u = x < 0 ? 0u - x : x, v = y < 0 ? 0u - y : y;
        unsigned r = u % v;
        if (r && (x ^ y) < 0)
            r = v - r;
        out[i] = y < 0 ? (int)(0u - r) : (int)r;
    }
}
