// The nearest of five centres for each point, by squared distance; points are pairs of shorts.
// qgpu: {"kernel": "nearest", "grid": [1, 1, 1], "block": [24, 1, 1], "args": [{"type": "i16", "data": [18, 752, -455, -255, 305, 824, -504, 418, -31, 570, 987, -325, -826, 102, -351, -541, 385, 140, -826, 905, -687, -289, 690, -799, -289, -346, -545, -613, -860, 991, 770, -327, 236, 829, 244, -122, 300, -818, 874, 899, 971, -869, 419, 236, 689, -316, 625, 414]}, {"type": "i16", "data": [-502, 717, 28, 131, -669, -497, 681, -527, 705, 131]}, {"type": "u8", "zeros": 24}, 5], "expect": [null, null, [0, 2, 1, 0, 1, 3, 2, 2, 4, 0, 2, 3, 2, 2, 0, 3, 1, 1, 3, 4, 3, 4, 3, 4], null]}

__global__ void nearest(const short2 *points, const short2 *centres, unsigned char *label, int n)
{
    short2 p = points[threadIdx.x];
    int best = 2147483647, choice = 0;
    for (int k = 0; k < n; k++) {
        int dx = p.x - centres[k].x, dy = p.y - centres[k].y;
        int d = dx * dx + dy * dy;
        if (d < best) {
            best = d;
            choice = k;
        }
    }
    label[threadIdx.x] = choice;
}
