// Powers by squaring, element by element, and where 32 bits do not hold them. No exponent is negative.

__global__ void power(const int *a, const int *b, int *out, int *over, int n)
{
    int i = threadIdx.x;
    if (i < n) {
        int base = a[i], exponent = b[i], r = 1, lost = 0, base_lost = 0;
        while (exponent) {
            if (exponent & 1) {
                long long p = (long long)r * base;
                lost |= base_lost | (p != (int)p);
                r = (int)p;
            }
            exponent >>= 1;
            long long square = (long long)base * base;
            base_lost |= square != (int)square;
            base = (int)square;
        }
        out[i] = r;
        over[i] = lost;
    }
}
