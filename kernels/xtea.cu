// The XTEA cipher, 32 rounds, on a pair of words a thread.
// qgpu: {"kernel": "xtea", "grid": [1, 1, 1], "block": [4, 1, 1], "args": [{"type": "u32", "data": [1201798311, 2156676774, 2422996417, 1979816119, 2520014340, 2092653165, 868580575, 474140926]}, {"type": "u32", "data": [487954598, 1327665595, 4009988651, 1509304523]}], "expect": [[2992707591, 959794105, 1442413611, 4031507279, 3309875128, 435198863, 4163561734, 2199522978], null]}

__global__ void xtea(uint2 *data, const unsigned *key)
{
    uint2 v = data[threadIdx.x];
    unsigned sum = 0;
    for (int round = 0; round < 32; round++) {
        v.x += ((v.y << 4 ^ v.y >> 5) + v.y) ^ (sum + key[sum & 3]);
        sum += 0x9e3779b9u;
        v.y += ((v.x << 4 ^ v.x >> 5) + v.x) ^ (sum + key[sum >> 11 & 3]);
    }
    data[threadIdx.x] = v;
}
