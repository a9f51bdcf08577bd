// Products, element by element, and where 32 bits do not hold them.

__global__ void multiply(const int *a, const int *b, int *out, int *over, int n)
{
    int i = threadIdx.x;
    if (i < n) {
        long long p = (long long)a[i] * b[i];
        out[i] = (int)p;
        over[i] = p != (int)p;
    }
}
