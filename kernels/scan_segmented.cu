// Prefix sums that start afresh at every flagged element.
// qgpu: {"kernel": "scan_segmented", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"type": "i32", "data": [6, -1, 7, 2, -5, 3, -9, 2, 6, -1, 5, -2, 8, -9, -5, 5, 2, -4, 1, -3, -8, 9, -3, -7, 7, 1, 3, -7, -9, -8, 7, -2]}, {"type": "u8", "data": [1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]}, {"type": "i32", "zeros": 32}], "expect": [null, null, [6, 5, 12, 2, -5, -2, -11, -9, -3, -4, 1, -2, 6, -3, -8, -3, -1, -5, -4, -7, -8, 1, -2, -9, -2, -1, 2, -5, -14, -8, -1, -3]]}

__global__ void scan_segmented(const int *in, const unsigned char *head, int *out)
{
    int lane = threadIdx.x;
    int sum = in[lane];
    int stop = head[lane];
    for (int d = 1; d < 32; d *= 2) {
        int left = __shfl_up_sync(0xffffffff, sum, d);
        int left_stop = __shfl_up_sync(0xffffffff, stop, d);
        if (lane >= d && !stop) {
            sum += left;
            stop = left_stop;
        }
    }
    out[lane] = sum;
}
