// Divides a total of 64 bits by a count below 32768: the quotient rounded down, and the remainder. The quotient fits 32 bits.

__global__ void share(const long long *total, int *quotient, int *remainder, int count)
{
    long long t = *total;
    unsigned long long left = t < 0 ? 0ull - t : t;
    unsigned q = 0, r = 0;
#pragma unroll 1
    for (int digit = 0; digit < 4; digit++) {
        unsigned part = r << 16 | (unsigned)(left >> 48);
        left <<= 16;
        q = q << 16 | part / count;
        r = part % count;
    }
    if (t < 0) {
        q = 0u - q - (r != 0);
        r = r ? count - r : 0;
    }
    *quotient = (int)q;
    *remainder = (int)r;
}
