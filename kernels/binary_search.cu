// Lower bound: where each key stands in a sorted table, or would stand.
// qgpu: {"kernel": "binary_search", "grid": [1, 1, 1], "block": [24, 1, 1], "args": [{"type": "u16", "data": [19, 32, 34, 49, 72, 75, 85, 100, 108, 146, 158, 164, 167, 176, 200, 211, 212, 219, 224, 225, 237, 265, 280, 281, 286, 290, 309, 350, 403, 406, 410, 414, 424, 425, 442, 447, 468, 470]}, {"type": "u16", "data": [121, 301, 470, 460, 139, 329, 109, 158, 221, 420, 389, 240, 409, 74, 516, 327, 282, 385, 456, 98, 0, 65535, 19, 470]}, {"type": "i32", "zeros": 24}, 38], "expect": [null, null, [9, 26, 37, 36, 9, 27, 9, 10, 18, 32, 28, 21, 30, 5, 38, 27, 24, 28, 36, 7, 0, 38, 0, 37], null]}

__global__ void binary_search(const unsigned short *table, const unsigned short *keys, int *place, int n)
{
    unsigned short key = keys[threadIdx.x];
    int low = 0, count = n;
    while (count > 0) {
        int half = count >> 1;
        if (table[low + half] < key) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    place[threadIdx.x] = low;
}
