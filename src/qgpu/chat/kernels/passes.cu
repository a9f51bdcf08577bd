// One round of the prime test of Miller and Rabin: prime stays 1 where n passes for this base, a prime itself.
// Below 2^31 a number that passes for 2, 3, 5 and 7 is prime. The base's power is squared bit by bit of n - 1, in Montgomery's form.

__global__ void passes(const int *a, int *prime, int base, int count)
{
    int i = threadIdx.x;
    if (i >= count || prime[i] == 0)
        return;
    unsigned m = a[i], good = m - 2 <= base - 2u;
    if (!good && (m & 1) && (int)m > 1) {
        unsigned inverse = m, one = 1, low = (m - 1) & (0u - (m - 1));
#pragma unroll 1
        for (int k = 0; k < 32; k++) {
            inverse *= 2 - m * inverse;  // right from the fourth round on
            one += one;
            if (one >= m)
                one -= m;
        }
        unsigned x = one;
#pragma unroll 1
        for (int k = 31; k > 0; k--) {
            if (m >> k == 0)
                continue;
            unsigned high = __umulhi(x, x), cancel = __umulhi(x * x * inverse, m);
            x = high - cancel + (high < cancel ? m : 0);
            if (m >> k & 1) {
                unsigned y = x;
#pragma unroll 1
                for (int times = 1; times < base; times++) {
                    x += y;
                    if (x >= m)
                        x -= m;
                }
            }
            unsigned even = low >> k;
            if (even && (x == m - one || (even == 1 && x == one)))
                good = 1;
        }
    }
    prime[i] = (int)good;
}
