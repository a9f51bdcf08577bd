// Searches a string at every place at once: marks the matches, and keeps the first.
// qgpu: {"kernel": "string_search", "grid": [2, 1, 1], "block": [24, 1, 1], "args": [{"type": "u8", "data": [116, 104, 101, 32, 99, 97, 116, 32, 115, 97, 116, 32, 111, 110, 32, 116, 104, 101, 32, 109, 97, 116, 59, 32, 116, 104, 101, 32, 99, 97, 116, 104, 101, 100, 114, 97, 108, 32, 111, 102, 32, 116, 104, 101, 32, 99, 97, 116]}, {"type": "u8", "data": [116, 104, 101, 32, 99, 97, 116]}, {"type": "u8", "zeros": 48}, {"type": "i32", "data": [2147483647]}, 48, 7], "expect": [null, null, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0], [0], null, null]}

__global__ void string_search(const char *text, const char *pattern, unsigned char *found, int *first, int n, int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + m > n)
        return;
    int k = 0;
    while (k < m && text[i + k] == pattern[k])
        k++;
    if (k == m) {
        found[i] = 1;
        atomicMin(first, i);
    }
}
