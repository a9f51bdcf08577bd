// What a warp agrees on: all, any, uniform, and who.
// qgpu: {"kernel": "votes", "grid": [1, 1, 1], "block": [96, 1, 1], "args": [{"type": "i32", "data": [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]}, {"type": "u32", "zeros": 12}], "expect": [null, [1, 1, 1, 4294967295, 0, 1, 0, 2863311530, 0, 0, 1, 0]]}

__global__ void votes(const int *in, unsigned *out)
{
    int warp = threadIdx.x / 32;
    int yes = in[threadIdx.x] > 5;
    unsigned all = __all_sync(0xffffffff, yes) != 0;
    unsigned any = __any_sync(0xffffffff, yes) != 0;
    unsigned uniform = __uni_sync(0xffffffff, yes) != 0;
    unsigned who = __ballot_sync(0xffffffff, yes);
    if (threadIdx.x % 32 == 0) {
        out[4 * warp] = all;
        out[4 * warp + 1] = any;
        out[4 * warp + 2] = uniform;
        out[4 * warp + 3] = who;
    }
}
