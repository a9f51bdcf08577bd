// Adds a dimmed picture to another, four channels a thread; what exceeds 255 stays there.
// qgpu: {"kernel": "blend", "grid": [1, 1, 1], "block": [16, 1, 1], "args": [{"type": "u8", "data": [189, 161, 202, 105, 49, 174, 23, 11, 85, 208, 161, 44, 130, 173, 182, 141, 67, 5, 244, 247, 227, 162, 124, 177, 165, 14, 84, 31, 63, 224, 108, 190, 34, 68, 58, 154, 132, 129, 99, 221, 209, 24, 141, 182, 217, 208, 47, 103, 238, 160, 113, 20, 157, 66, 116, 88, 150, 218, 9, 251, 68, 86, 33, 1]}, {"type": "u8", "data": [99, 219, 190, 26, 11, 21, 8, 139, 188, 13, 36, 224, 241, 57, 161, 124, 156, 93, 129, 210, 96, 90, 54, 120, 65, 33, 71, 55, 32, 142, 41, 31, 231, 39, 122, 92, 10, 77, 101, 186, 40, 124, 6, 72, 1, 79, 253, 4, 241, 11, 24, 225, 220, 49, 22, 5, 24, 121, 218, 208, 183, 90, 225, 62]}, {"type": "u8", "zeros": 64}, 96], "expect": [null, null, [226, 243, 255, 114, 53, 181, 26, 63, 155, 212, 174, 128, 220, 194, 242, 187, 125, 39, 255, 255, 255, 195, 144, 222, 189, 26, 110, 51, 75, 255, 123, 201, 120, 82, 103, 188, 135, 157, 136, 255, 224, 70, 143, 209, 217, 237, 141, 104, 255, 164, 122, 104, 239, 84, 124, 89, 159, 255, 90, 255, 136, 119, 117, 24], null]}

__device__ unsigned char add(unsigned char a, unsigned char b, int alpha)
{
    int v = a + (b * alpha >> 8);
    return v > 255 ? 255 : v;
}

__global__ void blend(const uchar4 *base, const uchar4 *light, uchar4 *out, int alpha)
{
    uchar4 a = base[threadIdx.x], b = light[threadIdx.x];
    out[threadIdx.x] = make_uchar4(add(a.x, b.x, alpha), add(a.y, b.y, alpha), add(a.z, b.z, alpha), add(a.w, b.w, alpha));
}
