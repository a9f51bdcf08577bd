// Sorts by counting: an element's place is the number of those before it in order; equal ones keep theirs.

__global__ void sort(const int *a, int *out, int n)
{
    int i = threadIdx.x;
    if (i < n) {
        int x = a[i], place = 0;
#pragma unroll 1
        for (int k = 0; k < n; k++) {
            int y = a[k];
            place += y < x || (y == x && k < i);
        }
        out[place] = x;
    }
}
