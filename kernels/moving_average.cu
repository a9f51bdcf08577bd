// Averages over a sliding window, rounded towards zero; near the ends the window is shorter.
// qgpu: {"kernel": "moving_average", "grid": [2, 1, 1], "block": [16, 1, 1], "args": [{"type": "i32", "data": [455, 845, -19, -966, 137, 929, 79, 681, -25, -884, 952, 651, -470, 647, -870, -616, 658, 989, 11, -255, -106, -77, 516, 338, -421, 413, -544, 528, -42, -431, 459, -9]}, {"type": "i32", "zeros": 32}, 32, 7], "expect": [null, [78, 90, 230, 208, 240, 116, -7, 267, 340, 140, 221, 0, -84, 136, 141, 49, 80, -27, 86, 248, 202, 0, 58, 17, 107, 112, -22, -5, 53, -6, 101, -5], null, null]}

__global__ void moving_average(const int *in, int *out, int n, int window)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int low = max(0, i - window / 2), high = min(n - 1, i + window / 2);
    int sum = 0;
    for (int k = low; k <= high; k++)
        sum += in[k];
    out[i] = sum / (high - low + 1);
}
