// Run-length encoding of 32 bytes: a ballot marks where runs begin, the next mark says how long each is.
// qgpu: {"kernel": "run_length", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"type": "u8", "data": [97, 97, 97, 97, 98, 99, 99, 100, 100, 100, 100, 100, 100, 101, 101, 102, 102, 102, 102, 102, 102, 102, 102, 102, 102, 102, 102, 102, 102, 102, 103, 104]}, {"type": "u8", "zeros": 32}, {"type": "u8", "zeros": 32}, {"type": "i32", "zeros": 1}], "expect": [null, [97, 98, 99, 100, 101, 102, 103, 104, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [4, 1, 2, 6, 2, 15, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [8]]}

__global__ void run_length(const unsigned char *in, unsigned char *symbol, unsigned char *length, int *runs)
{
    int lane = threadIdx.x;
    int own = in[lane];
    int before = __shfl_up_sync(0xffffffff, own, 1);
    bool head = lane == 0 || own != before;
    unsigned heads = __ballot_sync(0xffffffff, head);
    if (head) {
        int run = __popc(heads & ((1u << lane) - 1));
        unsigned later = heads & ~((2u << lane) - 1);
        int end = later ? __ffs(later) - 1 : 32;
        symbol[run] = own;
        length[run] = end - lane;
    }
    if (lane == 0)
        *runs = __popc(heads);
}
