// The larger of two, element by element.

__global__ void larger(const int *a, const int *b, int *out, int n)
{
    int i = threadIdx.x;
    if (i < n)
        out[i] = max(a[i], b[i]);
}
