// The 64-bit FNV-1a hash of four strings.
// qgpu: {"kernel": "fnv1a", "grid": [1, 1, 1], "block": [4, 1, 1], "args": [{"type": "u8", "data": [102, 111, 111, 98, 97, 114, 113, 119, 101, 110, 51, 46, 119, 97, 114, 112, 51, 49, 0, 1, 2, 3, 4, 5]}, {"type": "u64", "zeros": 4}, 6], "expect": [null, [9625390261332436968, 7040903886680263683, 11689720869746248799, 11910549588909886942], null]}

__global__ void fnv1a(const unsigned char *strings, unsigned long long *out, int length)
{
    unsigned long long hash = 0xcbf29ce484222325ULL;
    for (int i = 0; i < length; i++) {
        hash ^= strings[threadIdx.x * length + i];
        hash *= 0x100000001b3ULL;
    }
    out[threadIdx.x] = hash;
}
