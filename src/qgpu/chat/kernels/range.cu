// Numbers in equal steps: those from number `first` on.

__global__ void range(int *out, int start, int step, int first, int n)
{
    int i = threadIdx.x;
    if (i < n)
        out[i] = start + (first + i) * step;
}
