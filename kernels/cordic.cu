// Sine and cosine by CORDIC: fixed point with 15 fractional bits, the angles of the rotations in constant memory.
// qgpu: {"kernel": "cordic", "grid": [1, 1, 1], "block": [9, 1, 1], "args": [{"type": "i32", "data": [0, 4096, 8192, 16384, 25736, -10000, 32768, 40000, 51471]}, {"type": "i32", "zeros": 9}, {"type": "i32", "zeros": 9}], "expect": [null, [2, 4082, 8111, 15709, 23171, -9843, 27571, 30778, 32770], [32770, 32513, 31746, 28754, 23170, 31253, 17703, 11238, 2]]}

__constant__ int angle[14] = {25736, 15193, 8027, 4075, 2045, 1024, 512, 256, 128, 64, 32, 16, 8, 4};

__global__ void cordic(const int *theta, int *sine, int *cosine)
{
    int x = 19898, y = 0, rest = theta[threadIdx.x];
    for (int i = 0; i < 14; i++) {
        int dx = y >> i, dy = x >> i;
        bool positive = rest >= 0;
        x += positive ? -dx : dx;
        y += positive ? dy : -dy;
        rest += positive ? -angle[i] : angle[i];
    }
    sine[threadIdx.x] = y;
    cosine[threadIdx.x] = x;
}
