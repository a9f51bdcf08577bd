// Comparisons, element by element: 1 where the relation holds, else 0. Bits of relation: 1 less, 2 equal, 4 greater.

__global__ void compare(const int *a, const int *b, int *out, int relation, int n)
{
    int i = threadIdx.x;
    if (i < n) {
        int x = a[i], y = b[i];
        int is = x < y ? 1 : x == y ? 2 : 4;
        out[i] = (relation & is) != 0;
    }
}
