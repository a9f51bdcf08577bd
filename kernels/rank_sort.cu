// Sorting by counting: an element's place is the number of those before it in order; equal ones keep theirs.
// qgpu: {"kernel": "rank_sort", "grid": [1, 1, 1], "block": [24, 1, 1], "args": [{"type": "i16", "data": [3, -14, -14, 15, -22, 6, 8, 17, 6, 20, -7, 31, 5, -22, -41, 21, 9, -17, -25, 33, 10, 29, 38, -45]}, {"type": "i16", "zeros": 24}, 24], "expect": [null, [-45, -41, -25, -22, -22, -17, -14, -14, -7, 3, 5, 6, 6, 8, 9, 10, 15, 17, 20, 21, 29, 31, 33, 38], null]}

__global__ void rank_sort(const short *in, short *out, int n)
{
    int i = threadIdx.x;
    if (i >= n)
        return;
    short own = in[i];
    int rank = 0;
    for (int k = 0; k < n; k++)
        rank += in[k] < own || (in[k] == own && k < i);
    out[rank] = own;
}
