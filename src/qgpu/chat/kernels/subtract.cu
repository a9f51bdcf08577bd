// Differences, element by element, and where 32 bits do not hold them.

__global__ void subtract(const int *a, const int *b, int *out, int *over, int n)
{
    int i = threadIdx.x;
    if (i < n) {
        int x = a[i], y = b[i], r = (int)((unsigned)x - y);
        out[i] = r;
        over[i] = ((x ^ y) & (x ^ r)) < 0;
    }
}
