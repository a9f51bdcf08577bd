// Draws lines by Bresenham into a 16 x 16 bitmap, one thread a line; a row is a word, pixels are set with atomicOr.
// qgpu: {"kernel": "bresenham", "grid": [1, 1, 1], "block": [6, 1, 1], "args": [{"type": "i8", "data": [0, 0, 15, 15, 15, 0, 0, 15, 2, 3, 13, 5, 4, 14, 6, 1, 9, 9, 9, 2, 12, 12, 3, 12]}, {"type": "u32", "zeros": 16}], "expect": [null, [32769, 16450, 8772, 4700, 4080, 15904, 608, 928, 928, 608, 1056, 2064, 8184, 8212, 16402, 32769]]}

__global__ void bresenham(const char4 *lines, unsigned *rows)
{
    char4 line = lines[threadIdx.x];
    int x = line.x, y = line.y;
    int dx = abs(line.z - x), dy = -abs(line.w - y);
    int step_x = x < line.z ? 1 : -1, step_y = y < line.w ? 1 : -1;
    int error = dx + dy;
    while (true) {
        atomicOr(&rows[y], 1u << x);
        if (x == line.z && y == line.w)
            break;
        int twice = 2 * error;
        if (twice >= dy) {
            error += dy;
            x += step_x;
        }
        if (twice <= dx) {
            error += dx;
            y += step_y;
        }
    }
}
