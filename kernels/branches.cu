// A chain of if and else in which neighbouring lanes go different ways, some through a loop.
// qgpu: {"kernel": "branches", "grid": [1, 1, 1], "block": [16, 1, 1], "args": [{"type": "i32", "data": [-2147483647, -1, 0, 1, 9, 10, 99, 100, 2147483647, 50, -7, 3]}, {"type": "i32", "zeros": 12}, 12], "expect": [[-2147483647, -1, 0, 1, 9, 10, 99, 100, 2147483647, 50, -7, 3], [2147483646, 0, 0, 1, 45, 296, 316, 100, 1023, 316, 6, 6], null]}

__global__ void branches(const int *in, int *out, int n)
{
    int i = threadIdx.x;
    if (i >= n)
        return;
    int x = in[i];
    int y;
    if (x < 0) {
        y = -x;
        out[i] = y ^ 1;
    } else if (x < 10) {
        for (y = 0; x > 0; x--)
            y += x;
        out[i] = y;
    } else if (x < 100) {
        y = x << 2;
        while (y > 60)
            y -= 7;
        out[i] = y | 256;
    } else {
        out[i] = x & 1023;
    }
}
