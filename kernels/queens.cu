// Counts the placements of six queens: each thread fixes the first row's queen and searches with bit masks and a stack.
// qgpu: {"kernel": "queens", "grid": [1, 1, 1], "block": [6, 1, 1], "args": [{"type": "i32", "data": [0]}, 6], "expect": [[4], null]}

__global__ void queens(int *solutions, int n)
{
    unsigned columns[8], left[8], right[8], open[8];
    unsigned all = (1u << n) - 1, first = 1u << threadIdx.x;
    int row = 1, found = 0;
    columns[1] = first;
    left[1] = first << 1;
    right[1] = first >> 1;
    open[1] = all & ~(columns[1] | left[1] | right[1]);
    while (row > 0) {
        unsigned free = open[row];
        if (free == 0) {
            row--;
            continue;
        }
        unsigned queen = free & (0u - free);
        open[row] = free ^ queen;
        if (row == n - 1) {
            found++;
            continue;
        }
        columns[row + 1] = columns[row] | queen;
        left[row + 1] = (left[row] | queen) << 1;
        right[row + 1] = (right[row] | queen) >> 1;
        row++;
        open[row] = all & ~(columns[row] | left[row] | right[row]);
    }
    atomicAdd(solutions, found);
}
