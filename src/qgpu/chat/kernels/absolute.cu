// Numbers without their sign, and where 32 bits do not hold them.

__global__ void absolute(const int *a, int *out, int *over, int n)
{
    int i = threadIdx.x;
    if (i < n) {
        int x = a[i];
        unsigned r = x < 0 ? 0u - x : x;
        out[i] = (int)r;
        over[i] = r == 0x80000000u;
    }
}
