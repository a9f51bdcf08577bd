// Letters to capitals, four at a time in a vector.
// qgpu: {"kernel": "upper_case", "grid": [1, 1, 1], "block": [12, 1, 1], "args": [{"type": "u8", "data": [69, 118, 101, 114, 121, 32, 119, 101, 105, 103, 104, 116, 32, 105, 115, 32, 99, 111, 109, 112, 117, 116, 101, 100, 59, 32, 110, 111, 116, 104, 105, 110, 103, 32, 105, 115, 32, 116, 114, 97, 105, 110, 101, 100, 46, 32, 91, 123, 96, 126, 125, 93]}], "expect": [[69, 86, 69, 82, 89, 32, 87, 69, 73, 71, 72, 84, 32, 73, 83, 32, 67, 79, 77, 80, 85, 84, 69, 68, 59, 32, 78, 79, 84, 72, 73, 78, 71, 32, 73, 83, 32, 84, 82, 65, 73, 78, 69, 68, 46, 32, 91, 123, 96, 126, 125, 93]]}

__device__ unsigned char upper(unsigned char c)
{
    return c >= 'a' && c <= 'z' ? c - 32 : c;
}

__global__ void upper_case(uchar4 *text)
{
    uchar4 c = text[threadIdx.x];
    text[threadIdx.x] = make_uchar4(upper(c.x), upper(c.y), upper(c.z), upper(c.w));
}
