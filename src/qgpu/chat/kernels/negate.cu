// Numbers with the other sign, and where 32 bits do not hold them.

__global__ void negate(const int *a, int *out, int *over, int n)
{
    int i = threadIdx.x;
    if (i < n) {
        unsigned x = a[i];
        out[i] = (int)(0u - x);
        over[i] = x == 0x80000000u;
    }
}
