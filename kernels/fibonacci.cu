// Thread n computes the n-th Fibonacci number; the loop's length is the thread's own.
// qgpu: {"kernel": "fibonacci", "grid": [1, 1, 1], "block": [16, 1, 1], "args": [{"type": "u32", "zeros": 16}], "expect": [[0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610]]}

__global__ void fibonacci(unsigned *out)
{
    int n = threadIdx.x;
    unsigned a = 0, b = 1;
    for (int i = 0; i < n; i++) {
        unsigned next = a + b;
        a = b;
        b = next;
    }
    out[n] = a;
}
