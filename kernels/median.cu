// Median of the 3 x 3 neighbours of each inner pixel, by partial sorting with min and max.
// qgpu: {"kernel": "median", "grid": [1, 1, 1], "block": [6, 4, 1], "args": [{"type": "u8", "data": [57, 12, 140, 125, 114, 71, 52, 44, 216, 16, 15, 47, 111, 119, 13, 101, 214, 112, 229, 142, 3, 81, 216, 174, 142, 79, 110, 172, 52, 47, 194, 49, 183, 176, 135, 22, 235, 63, 193, 40, 150, 185, 98, 35, 23, 116, 148, 40]}, {"type": "u8", "zeros": 24}, 8], "expect": [null, [112, 112, 114, 111, 81, 81, 112, 110, 110, 81, 81, 101, 142, 135, 135, 63, 81, 81, 142, 110, 98, 52, 116, 63], null]}

__device__ __forceinline__ void order(int &a, int &b)
{
    int low = min(a, b);
    b = max(a, b);
    a = low;
}

__global__ void median(const unsigned char *in, unsigned char *out, int width)
{
    const unsigned char *p = in + threadIdx.y * width + threadIdx.x;
    const unsigned char *q = p + width, *r = q + width;
    int a = p[0], b = p[1], c = p[2], d = q[0], e = q[1], f = q[2], g = r[0], h = r[1], i = r[2];
    order(a, b); order(b, c); order(a, b);
    order(d, e); order(e, f); order(d, e);
    order(g, h); order(h, i); order(g, h);
    int low = max(a, max(d, g));
    int high = min(c, min(f, i));
    order(b, e); order(e, h); order(b, e);
    order(low, e); order(e, high); order(low, e);
    out[threadIdx.y * blockDim.x + threadIdx.x] = e;
}
