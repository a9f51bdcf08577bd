// A product of all elements: multiplication as an atomic, made from compare-and-swap.
// qgpu: {"kernel": "atomic_product", "grid": [1, 1, 1], "block": [16, 1, 1], "args": [{"type": "u32", "data": [2908233306, 185773681, 3371168585, 3845760910, 2235385138, 518352917, 2196840131, 856834476, 1690218517, 1491078799, 4281296135, 2272892082, 1242812977, 2511293544, 636770949, 2555503832]}, {"type": "u32", "data": [1]}], "expect": [null, [2213003055]]}

__device__ void atomic_multiply(unsigned *address, unsigned factor)
{
    unsigned seen = *(volatile unsigned *)address, assumed;
    do {
        assumed = seen;
        seen = atomicCAS(address, assumed, assumed * factor);
    } while (seen != assumed);
}

__global__ void atomic_product(const unsigned *in, unsigned *product)
{
    atomic_multiply(product, in[threadIdx.x] | 1);
}
