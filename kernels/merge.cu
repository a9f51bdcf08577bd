// Merges two sorted arrays: each thread finds by bisection how many elements of the other array precede its own.
// qgpu: {"kernel": "merge", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"type": "i32", "data": [4, 6, 15, 16, 18, 19, 27, 28, 35, 47, 50, 50, 55, 59]}, {"type": "i32", "data": [2, 4, 7, 13, 17, 17, 26, 26, 27, 29, 31, 38, 39, 41, 49, 56, 58, 60]}, {"type": "i32", "zeros": 32}, 14, 18], "expect": [null, null, [2, 4, 4, 6, 7, 13, 15, 16, 17, 17, 18, 19, 26, 26, 27, 27, 28, 29, 31, 35, 38, 39, 41, 47, 49, 50, 50, 55, 56, 58, 59, 60], null, null]}

__device__ int count_below(const int *sorted, int n, int key, bool or_equal)
{
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (sorted[middle] < key || (or_equal && sorted[middle] == key))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

__global__ void merge(const int *a, const int *b, int *out, int n, int m)
{
    int t = threadIdx.x;
    if (t < n)
        out[t + count_below(b, m, a[t], false)] = a[t];
    else if (t < n + m)
        out[t - n + count_below(a, n, b[t - n], true)] = b[t - n];
}
