// Radix sort of 32 bytes, one bit a round: a ballot tells each lane how many zeros and ones come before it.
// qgpu: {"kernel": "radix_sort", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"type": "u8", "data": [243, 63, 206, 8, 104, 137, 103, 75, 40, 213, 225, 101, 12, 42, 206, 2, 32, 89, 53, 23, 135, 112, 100, 45, 15, 234, 203, 109, 151, 70, 218, 183]}], "expect": [[2, 8, 12, 15, 23, 32, 40, 42, 45, 53, 63, 70, 75, 89, 100, 101, 103, 104, 109, 112, 135, 137, 151, 183, 203, 206, 206, 213, 218, 225, 234, 243]]}

__global__ void radix_sort(unsigned char *data)
{
    __shared__ unsigned v[32];
    int lane = threadIdx.x;
    unsigned below = (1u << lane) - 1;
    unsigned own = data[lane];
    for (int bit = 0; bit < 8; bit++) {
        bool one = own >> bit & 1;
        unsigned ones = __ballot_sync(0xffffffff, one);
        int place = one ? __popc(~ones) + __popc(ones & below) : __popc(~ones & below);
        v[place] = own;
        __syncwarp();
        own = v[lane];
        __syncwarp();
    }
    data[lane] = own;
}
