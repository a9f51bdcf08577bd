// The smaller of two, element by element.

__global__ void smaller(const int *a, const int *b, int *out, int n)
{
    int i = threadIdx.x;
    if (i < n)
        out[i] = min(a[i], b[i]);
}
