// The largest element and its place, the first one where several are equal.
// qgpu: {"kernel": "argmax", "grid": [1, 1, 1], "block": [64, 1, 1], "args": [{"type": "i32", "data": [-169, 470, -346, -96, 166, -451, -426, 340, 48, -404, -126, 96, -441, 777, 19, -281, -462, -412, -56, -72, -429, -254, -408, 64, -66, -440, 346, 79, -374, 777, -272, 145, 142, 96, 470, -437, 90, 99, -94, -450, 499, -274, -453, 70, 379, -364, -204, -71, -353, 53]}, {"type": "i32", "zeros": 2}, 50], "expect": [null, [777, 13], null]}

__global__ void argmax(const int *in, int *out, int n)
{
    __shared__ int value[64], place[64];
    int t = threadIdx.x;
    value[t] = t < n ? in[t] : -2147483647 - 1;
    place[t] = t;
    __syncthreads();
    for (int step = 32; step > 0; step >>= 1) {
        if (t < step && (value[t + step] > value[t] || (value[t + step] == value[t] && place[t + step] < place[t]))) {
            value[t] = value[t + step];
            place[t] = place[t + step];
        }
        __syncthreads();
    }
    if (t == 0) {
        out[0] = value[0];
        out[1] = place[0];
    }
}
