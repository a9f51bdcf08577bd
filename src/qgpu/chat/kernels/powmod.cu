// Powers modulo m, element by element, by squaring. 0 <= base < m, and no exponent is negative.

__global__ void powmod(const int *a, const int *b, const int *m, int *out, int n)
{
    int i = threadIdx.x;
    if (i >= n)
        return;
    unsigned base = a[i], exponent = b[i], modulus = m[i], r = modulus > 1;
    while (exponent) {
        // in the first of the two rounds the result is multiplied by the base, in the second the base by itself
#pragma unroll 1
        for (int square = 0; square < 2; square++) {
            unsigned factor = square ? base : r, sum = 0;
#pragma unroll 1
            for (int bit = 31; bit >= 0; bit--) {
                sum += sum;
                if (sum >= modulus)
                    sum -= modulus;
                if (factor >> bit & 1)
                    sum += base;
                if (sum >= modulus)
                    sum -= modulus;
            }
            if (square)
                base = sum;
            else if (exponent & 1)
                r = sum;
        }
        exponent >>= 1;
    }
    out[i] = (int)r;
}
