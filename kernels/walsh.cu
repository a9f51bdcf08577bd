// The fast Walsh-Hadamard transform of 32 elements, by five shuffles.
// qgpu: {"kernel": "walsh", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"type": "i32", "data": [0, -26, -8, -27, 30, -49, 17, 48, 39, -49, -7, 37, 9, -33, -22, -35, 38, -33, 27, -28, 6, 2, -9, 35, 5, -33, -11, -30, -35, 9, -7, -43]}], "expect": [[-183, 327, -57, 281, -29, 217, 33, 67, 229, 31, -117, 81, -245, 109, 201, -337, 31, 57, -107, 275, 17, -245, 7, -67, -137, -43, -19, -169, -171, -93, 131, -75]]}

__global__ void walsh(int *data)
{
    int lane = threadIdx.x;
    int v = data[lane];
    for (int bit = 1; bit < 32; bit <<= 1) {
        int other = __shfl_xor_sync(0xffffffff, v, bit);
        v = lane & bit ? other - v : v + other;
    }
    data[lane] = v;
}
