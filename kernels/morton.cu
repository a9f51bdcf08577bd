// Morton codes: the bits of x and y interleaved, and x taken out again.
// qgpu: {"kernel": "morton", "grid": [1, 1, 1], "block": [16, 1, 1], "args": [{"type": "u16", "data": [10628, 33921, 18426, 45125, 8477, 19604, 54528, 43834, 27558, 39281, 43820, 10035, 22354, 61300, 481, 29253]}, {"type": "u16", "data": [26695, 12149, 63049, 40606, 46510, 59148, 40193, 34698, 64011, 35760, 48464, 9736, 18863, 5379, 49982, 48844]}, {"type": "u32", "zeros": 16}, {"type": "u16", "zeros": 16}], "expect": [null, null, [750870586, 1220176419, 3124590022, 3349713593, 2384693753, 3095019952, 3551723522, 3295643084, 3201123486, 3251347201, 3471255120, 205325701, 832018862, 1450644762, 2685099689, 2678894769], [10628, 33921, 18426, 45125, 8477, 19604, 54528, 43834, 27558, 39281, 43820, 10035, 22354, 61300, 481, 29253]]}

__device__ unsigned spread(unsigned x)
{
    x = (x | x << 8) & 0x00ff00ff;
    x = (x | x << 4) & 0x0f0f0f0f;
    x = (x | x << 2) & 0x33333333;
    return (x | x << 1) & 0x55555555;
}

__device__ unsigned short gather(unsigned x)
{
    x &= 0x55555555;
    x = (x | x >> 1) & 0x33333333;
    x = (x | x >> 2) & 0x0f0f0f0f;
    x = (x | x >> 4) & 0x00ff00ff;
    return x | x >> 8;
}

__global__ void morton(const unsigned short *x, const unsigned short *y, unsigned *code, unsigned short *back)
{
    int i = threadIdx.x;
    unsigned c = spread(x[i]) | spread(y[i]) << 1;
    code[i] = c;
    back[i] = gather(c);
}
