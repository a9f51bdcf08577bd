// Factorials, and where 32 bits do not hold them. No argument is negative.

__global__ void factorial(const int *a, int *out, int *over, int n)
{
    int i = threadIdx.x;
    if (i < n) {
        int last = a[i], r = 1, lost = 0;
        for (int k = 2; k <= last && !lost; k++) {
            long long p = (long long)r * k;
            r = (int)p;
            lost = p != r;
        }
        out[i] = r;
        over[i] = lost;
    }
}
