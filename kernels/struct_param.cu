// A structure by value as a parameter: ints, a short, a byte and a 64-bit integer. Its argument is its bytes.
// qgpu: {"kernel": "struct_param", "grid": [1, 1, 1], "block": [16, 1, 1], "args": [{"type": "i32", "data": [55012, -8481, 52232, -71577, -99480, -18154, 37373, 49546, -12261, -23262, -57064, -8695, -56576, 96929, -61317, -73788]}, {"type": "i64", "zeros": 16}, {"type": "u8", "data": [3, 0, 0, 0, 254, 255, 255, 255, 212, 254, 5, 0, 0, 0, 0, 0, 0, 16, 165, 212, 232, 0, 0, 0]}], "expect": [null, [1000005936496, 999999079252, 1000005636256, 999992264884, 999989251360, 999998034568, 1000004031484, 1000005346168, 999998671012, 999997482904, 999993832288, 999999056140, 999993884992, 1000010463532, 999993372964, 999992026096], null]}

struct Affine {
    int scale, stretch;
    short shift;
    unsigned char steps;
    long long offset;
};

__global__ void struct_param(const int *in, long long *out, Affine f)
{
    int v = in[threadIdx.x];
    for (int i = 0; i < f.steps; i++)
        v = (i & 1 ? f.stretch : f.scale) * v + f.shift;
    out[threadIdx.x] = v + f.offset;
}
