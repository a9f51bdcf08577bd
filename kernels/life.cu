// One generation of Conway's game of life on a 10 x 8 torus.
// qgpu: {"kernel": "life", "grid": [1, 1, 1], "block": [10, 8, 1], "args": [{"type": "u8", "data": [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0]}, {"type": "u8", "zeros": 80}], "expect": [null, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]}

__global__ void life(const unsigned char *in, unsigned char *out)
{
    int x = threadIdx.x, y = threadIdx.y;
    int width = blockDim.x, height = blockDim.y;
    int left = x == 0 ? width - 1 : x - 1, right = x == width - 1 ? 0 : x + 1;
    const unsigned char *above = in + (y == 0 ? height - 1 : y - 1) * width;
    const unsigned char *own = in + y * width;
    const unsigned char *below = in + (y == height - 1 ? 0 : y + 1) * width;
    int alive = above[left] + above[x] + above[right] + own[left] + own[right] + below[left] + below[x] + below[right];
    out[y * width + x] = alive == 3 || (alive == 2 && own[x]);
}
