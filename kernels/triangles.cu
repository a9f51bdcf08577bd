// Counts the triangles of a graph whose rows are bit masks: common neighbours of each edge's ends.
// qgpu: {"kernel": "triangles", "grid": [1, 1, 1], "block": [16, 1, 1], "args": [{"type": "u16", "data": [5356, 54352, 37609, 42949, 11138, 25157, 43439, 33373, 8792, 46524, 16907, 16464, 49671, 888, 7202, 4814]}, {"type": "u32", "zeros": 1}], "expect": [null, [49]]}

__global__ void triangles(const unsigned short *row, unsigned *count)
{
    int v = threadIdx.x;
    unsigned own = row[v], found = 0;
    for (unsigned rest = own & ((1u << v) - 1); rest != 0; rest &= rest - 1) {
        int u = __ffs(rest) - 1;
        found += __popc(own & row[u] & ((1u << u) - 1));
    }
    atomicAdd(count, found);
}
