// The Mandelbrot set in fixed point with 12 fractional bits: rounds until a point escapes, at most ten.
// qgpu: {"kernel": "mandelbrot", "grid": [2, 1, 1], "block": [6, 5, 1], "args": [{"type": "u8", "zeros": 60}, 12, 10], "expect": [[1, 1, 2, 3, 3, 3, 4, 6, 10, 4, 2, 2, 1, 3, 3, 4, 5, 6, 10, 10, 10, 10, 5, 3, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 5, 3, 1, 3, 3, 4, 5, 6, 10, 10, 10, 10, 5, 3, 1, 1, 2, 3, 3, 3, 4, 6, 10, 4, 2, 2], null, null]}

__global__ void mandelbrot(unsigned char *out, int width, int rounds)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = threadIdx.y;
    int cx = -8192 + column * 1024, cy = -4096 + row * 2048;
    int x = 0, y = 0, n = 0;
    while (n < rounds) {
        int xx = x * x >> 12, yy = y * y >> 12;
        if (xx + yy > 4 << 12)
            break;
        y = (x * y >> 11) + cy;
        x = xx - yy + cx;
        n++;
    }
    out[row * width + column] = n;
}
