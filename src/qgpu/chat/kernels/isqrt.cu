// Square roots rounded down, two bits of the argument at a time. No argument is negative.

__global__ void isqrt(const int *a, int *out, int n)
{
    int i = threadIdx.x;
    if (i < n) {
        unsigned x = a[i], root = 0, bit = 1u << 30;
        while (bit) {
            unsigned trial = root + bit;
            root >>= 1;
            if (x >= trial) {
                x -= trial;
                root += bit;
            }
            bit >>= 2;
        }
        out[i] = (int)root;
    }
}
