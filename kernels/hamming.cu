// Hamming distances between four 64-bit words.
// qgpu: {"kernel": "hamming", "grid": [1, 1, 1], "block": [4, 4, 1], "args": [{"type": "u64", "data": [18372017998581415251, 1146510180744412697, 13419293822859481840, 1258789323705597224]}, {"type": "u8", "zeros": 16}], "expect": [null, [0, 30, 34, 33, 30, 0, 34, 25, 34, 34, 0, 35, 33, 25, 35, 0]]}

__global__ void hamming(const unsigned long long *words, unsigned char *distance)
{
    int i = threadIdx.y, j = threadIdx.x;
    distance[4 * i + j] = __popcll(words[i] ^ words[j]);
}
