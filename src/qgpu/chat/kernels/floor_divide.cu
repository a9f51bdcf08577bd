// Quotients rounded down, element by element. No divisor is 0.

__global__ void floor_divide(const int *a, const int *b, int *out, int *over, int n)
{
    int i = threadIdx.x;
    if (i < n) {
        int x = a[i], y = b[i];
        unsigned u = x < 0 ? 0u - x : x, v = y < 0 ? 0u - y : y;
        unsigned q = u / v;
        int negative = (x ^ y) < 0;
        unsigned r = negative ? 0u - (q + (q * v != u)) : q;
        out[i] = (int)r;
        over[i] = !negative && (int)r < 0;
    }
}
