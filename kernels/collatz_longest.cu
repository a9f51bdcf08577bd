// Which start below 33 has the longest Collatz sequence: the length above the start in one word, and atomicMax.
// qgpu: {"kernel": "collatz_longest", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"type": "u32", "data": [0]}], "expect": [[7274523]]}

__global__ void collatz_longest(unsigned *best)
{
    unsigned start = threadIdx.x + 1, x = start, steps = 0;
    while (x != 1) {
        x = x & 1 ? 3 * x + 1 : x / 2;
        steps++;
    }
    atomicMax(best, steps << 16 | start);
}
