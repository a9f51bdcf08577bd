// Knuth, Morris and Pratt: the pattern's failure table in shared memory, then each thread searches a line of its own.
// qgpu: {"kernel": "kmp", "grid": [1, 1, 1], "block": [3, 1, 1], "args": [{"type": "u8", "data": [97, 98, 97, 98, 97, 98, 99, 97, 98, 97, 98, 99, 97, 98, 97, 98, 97, 98, 99, 97, 97, 98, 97, 98, 97, 98, 99, 97, 99, 97, 98, 97, 98, 97, 98, 97, 98, 97, 98, 99, 97, 99]}, {"type": "u8", "data": [97, 98, 97, 98, 99, 97]}, {"type": "i32", "zeros": 3}, 14, 6], "expect": [null, null, [2, 0, 7], null, null]}

__global__ void kmp(const char *text, const char *pattern, int *place, int length, int m)
{
    __shared__ int back[16];
    if (threadIdx.x == 0) {
        back[0] = 0;
        for (int i = 1, k = 0; i < m; i++) {
            while (k > 0 && pattern[i] != pattern[k])
                k = back[k - 1];
            if (pattern[i] == pattern[k])
                k++;
            back[i] = k;
        }
    }
    __syncthreads();
    const char *line = text + threadIdx.x * length;
    int k = 0, at = -1;
    for (int i = 0; i < length && at < 0; i++) {
        while (k > 0 && line[i] != pattern[k])
            k = back[k - 1];
        if (line[i] == pattern[k])
            k++;
        if (k == m)
            at = i - m + 1;
    }
    place[threadIdx.x] = at;
}
