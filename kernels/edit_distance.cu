// Levenshtein distance: threads work along an antidiagonal of the table at a time; three diagonals are kept.
// qgpu: {"kernel": "edit_distance", "grid": [1, 1, 1], "block": [16, 1, 1], "args": [{"type": "u8", "data": [105, 110, 116, 101, 110, 116, 105, 111, 110]}, {"type": "u8", "data": [101, 120, 101, 99, 117, 116, 105, 111, 110, 32, 111, 102]}, {"type": "i32", "zeros": 1}, 9, 12], "expect": [null, null, [8], null, null]}

__global__ void edit_distance(const char *a, const char *b, int *out, int n, int m)
{
    __shared__ int diagonal[3][16];
    int i = threadIdx.x;
    for (int d = 0; d <= n + m; d++) {
        int j = d - i;
        if (i <= n && j >= 0 && j <= m) {
            int best;
            if (i == 0 || j == 0) {
                best = d;
            } else {
                int replace = diagonal[(d + 1) % 3][i - 1] + (a[i - 1] != b[j - 1]);
                int gap = min(diagonal[(d + 2) % 3][i - 1], diagonal[(d + 2) % 3][i]) + 1;
                best = min(replace, gap);
            }
            diagonal[d % 3][i] = best;
        }
        __syncthreads();
    }
    if (i == n)
        *out = diagonal[(n + m) % 3][n];
}
