/* CUDA's device vocabulary for clang without a CUDA toolkit: force-included in front of every kernel file.
 *
 * Integer kernels only need this header; host code in the same file also needs qgpu_host.h, which the stand-ins for
 * <stdio.h>, <cuda_runtime.h> and their like include. Written for -m32 and for 64-bit addresses alike.
 */
#ifndef QGPU_CUDA_H
#define QGPU_CUDA_H

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((device))
#define __grid_constant__
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __forceinline__ inline __attribute__((always_inline))
#ifndef __noinline__
#define __noinline__ __attribute__((noinline))
#endif
#ifndef __restrict__
#define __restrict__ __restrict
#endif
#define __align__(n) __attribute__((aligned(n)))
#define __CUDACC__ 1

#define QGPU_FN static inline __attribute__((always_inline, nodebug, device, unused))
#define QGPU_BOTH static inline __attribute__((always_inline, nodebug, host, device, unused))

/* ---- fixed-width integers ---- */
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT64_MAX 9223372036854775807LL
#define UINT64_MAX 18446744073709551615ULL
#define INT_MIN INT32_MIN
#define INT_MAX INT32_MAX
#define UINT_MAX UINT32_MAX
#define CHAR_BIT 8

/* ---- small vectors ---- */
#define QGPU_VECTOR(name, scalar, a2, a4) \
    struct name##1 { scalar x; }; \
    struct __attribute__((aligned(a2))) name##2 { scalar x, y; }; \
    struct name##3 { scalar x, y, z; }; \
    struct __attribute__((aligned(a4))) name##4 { scalar x, y, z, w; }; \
    QGPU_BOTH name##1 make_##name##1(scalar x) { return {x}; } \
    QGPU_BOTH name##2 make_##name##2(scalar x, scalar y) { return {x, y}; } \
    QGPU_BOTH name##3 make_##name##3(scalar x, scalar y, scalar z) { return {x, y, z}; } \
    QGPU_BOTH name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }
QGPU_VECTOR(char, signed char, 2, 4)
QGPU_VECTOR(uchar, unsigned char, 2, 4)
QGPU_VECTOR(short, short, 4, 8)
QGPU_VECTOR(ushort, unsigned short, 4, 8)
QGPU_VECTOR(int, int, 8, 16)
QGPU_VECTOR(uint, unsigned int, 8, 16)
QGPU_VECTOR(longlong, long long, 16, 16)
QGPU_VECTOR(ulonglong, unsigned long long, 16, 16)
#undef QGPU_VECTOR

struct dim3 {
    unsigned x, y, z;
    __host__ __device__ constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

/* ---- indices ---- */
#define QGPU_INDEX(type, variable, sreg) \
    struct type { \
        __declspec(property(get = get_x)) unsigned x; \
        __declspec(property(get = get_y)) unsigned y; \
        __declspec(property(get = get_z)) unsigned z; \
        static __forceinline__ __device__ __attribute__((nodebug)) unsigned get_x() { return __nvvm_read_ptx_sreg_##sreg##_x(); } \
        static __forceinline__ __device__ __attribute__((nodebug)) unsigned get_y() { return __nvvm_read_ptx_sreg_##sreg##_y(); } \
        static __forceinline__ __device__ __attribute__((nodebug)) unsigned get_z() { return __nvvm_read_ptx_sreg_##sreg##_z(); } \
        __forceinline__ __device__ __attribute__((nodebug)) operator uint3() const { return {get_x(), get_y(), get_z()}; } \
        __forceinline__ __device__ __attribute__((nodebug)) operator dim3() const { return dim3(get_x(), get_y(), get_z()); } \
    }; \
    extern const __device__ __attribute__((weak)) type variable;
QGPU_INDEX(qgpu_thread_index, threadIdx, tid)
QGPU_INDEX(qgpu_block_index, blockIdx, ctaid)
QGPU_INDEX(qgpu_block_size, blockDim, ntid)
QGPU_INDEX(qgpu_grid_size, gridDim, nctaid)
#undef QGPU_INDEX
#define warpSize 32

/* ---- barriers and fences ---- */
QGPU_FN int __syncthreads_count(int p) { return __nvvm_bar0_popc(p); }
QGPU_FN int __syncthreads_and(int p) { return __nvvm_bar0_and(p); }
QGPU_FN int __syncthreads_or(int p) { return __nvvm_bar0_or(p); }
QGPU_FN void __syncwarp(unsigned mask = 0xffffffffu) { __nvvm_bar_warp_sync(mask); }
QGPU_FN void __threadfence_block() { __nvvm_membar_cta(); }
QGPU_FN void __threadfence() { __nvvm_membar_gl(); }
QGPU_FN void __threadfence_system() { __nvvm_membar_sys(); }
QGPU_FN void __nanosleep(unsigned) {} /* a hint: it orders nothing */
QGPU_FN void __trap() { __builtin_trap(); }

/* ---- warp: shuffles, votes, masks ---- */
#define QGPU_SHUFFLE(name, builtin, lane, last) \
    QGPU_FN int name(unsigned mask, int v, lane, int width = 32) { \
        return builtin(mask, v, n, ((32 - width) << 8) | last); \
    } \
    QGPU_FN unsigned name(unsigned mask, unsigned v, lane, int width = 32) { \
        return (unsigned)builtin(mask, (int)v, n, ((32 - width) << 8) | last); \
    } \
    QGPU_FN unsigned long long name(unsigned mask, unsigned long long v, lane, int width = 32) { \
        unsigned low = (unsigned)builtin(mask, (int)(unsigned)v, n, ((32 - width) << 8) | last); \
        unsigned high = (unsigned)builtin(mask, (int)(unsigned)(v >> 32), n, ((32 - width) << 8) | last); \
        return ((unsigned long long)high << 32) | low; \
    } \
    QGPU_FN long long name(unsigned mask, long long v, lane, int width = 32) { \
        return (long long)name(mask, (unsigned long long)v, n, width); \
    } \
    QGPU_FN long name(unsigned mask, long v, lane, int width = 32) { \
        return sizeof(long) == 8 ? (long)name(mask, (long long)v, n, width) : (long)name(mask, (int)v, n, width); \
    } \
    QGPU_FN unsigned long name(unsigned mask, unsigned long v, lane, int width = 32) { \
        return (unsigned long)name(mask, (long)v, n, width); \
    } \
    QGPU_FN float name(unsigned mask, float v, lane, int width = 32) { \
        return __builtin_bit_cast(float, name(mask, __builtin_bit_cast(int, v), n, width)); \
    }
QGPU_SHUFFLE(__shfl_sync, __nvvm_shfl_sync_idx_i32, int n, 0x1f)
QGPU_SHUFFLE(__shfl_up_sync, __nvvm_shfl_sync_up_i32, unsigned n, 0)
QGPU_SHUFFLE(__shfl_down_sync, __nvvm_shfl_sync_down_i32, unsigned n, 0x1f)
QGPU_SHUFFLE(__shfl_xor_sync, __nvvm_shfl_sync_bfly_i32, int n, 0x1f)
#undef QGPU_SHUFFLE

QGPU_FN int __all_sync(unsigned mask, int p) { return __nvvm_vote_all_sync(mask, p); }
QGPU_FN int __any_sync(unsigned mask, int p) { return __nvvm_vote_any_sync(mask, p); }
QGPU_FN int __uni_sync(unsigned mask, int p) { return __nvvm_vote_uni_sync(mask, p); }
QGPU_FN unsigned __ballot_sync(unsigned mask, int p) { return __nvvm_vote_ballot_sync(mask, p); }
#define QGPU_MATCH(T, B, size) \
    QGPU_FN unsigned __match_any_sync(unsigned mask, T v) { return (unsigned)__nvvm_match_any_sync_i##size(mask, (B)v); } \
    QGPU_FN unsigned __match_all_sync(unsigned mask, T v, int *same) { \
        return (unsigned)__nvvm_match_all_sync_i##size##p(mask, (B)v, same); \
    }
QGPU_MATCH(int, int, 32)
QGPU_MATCH(unsigned, int, 32)
QGPU_MATCH(long long, long long, 64)
QGPU_MATCH(unsigned long long, long long, 64)
#undef QGPU_MATCH
QGPU_FN unsigned __activemask() {
    unsigned m;
    asm volatile("activemask.b32 %0;" : "=r"(m));
    return m;
}
QGPU_FN unsigned __lanemask_lt() { return __nvvm_read_ptx_sreg_lanemask_lt(); }
QGPU_FN unsigned __laneid() { return __nvvm_read_ptx_sreg_laneid(); }

/* ---- atomics: relaxed, as in CUDA ---- */
#define QGPU_ATOMIC(name, op, suffix, T, B) \
    QGPU_FN T name(T *p, T v) { return (T)__nvvm_atom_##op##_gen_##suffix((B *)p, (B)v); }
#define QGPU_ATOMIC_WIDTHS(name, op) \
    QGPU_ATOMIC(name, op, i, int, int) \
    QGPU_ATOMIC(name, op, i, unsigned, int) \
    QGPU_ATOMIC(name, op, ll, unsigned long long, long long)
QGPU_ATOMIC_WIDTHS(atomicAdd, add)
QGPU_ATOMIC_WIDTHS(atomicExch, xchg)
QGPU_ATOMIC_WIDTHS(atomicAnd, and)
QGPU_ATOMIC_WIDTHS(atomicOr, or)
QGPU_ATOMIC_WIDTHS(atomicXor, xor)
#define QGPU_ATOMIC_ORDER(name, op) \
    QGPU_ATOMIC(name, op, i, int, int) \
    QGPU_ATOMIC(name, op, ui, unsigned, unsigned) \
    QGPU_ATOMIC(name, op, ll, long long, long long) \
    QGPU_ATOMIC(name, op, ull, unsigned long long, unsigned long long)
QGPU_ATOMIC_ORDER(atomicMin, min)
QGPU_ATOMIC_ORDER(atomicMax, max)
QGPU_ATOMIC(atomicInc, inc, ui, unsigned, unsigned)
QGPU_ATOMIC(atomicDec, dec, ui, unsigned, unsigned)
#undef QGPU_ATOMIC_ORDER
#undef QGPU_ATOMIC_WIDTHS
#undef QGPU_ATOMIC
#define QGPU_SCOPES(name) \
    template <class T, class V> QGPU_FN T name##_block(T *p, V v) { return name(p, (T)v); } \
    template <class T, class V> QGPU_FN T name##_system(T *p, V v) { return name(p, (T)v); }
QGPU_SCOPES(atomicAdd)
QGPU_SCOPES(atomicExch)
QGPU_SCOPES(atomicAnd)
QGPU_SCOPES(atomicOr)
QGPU_SCOPES(atomicXor)
QGPU_SCOPES(atomicMin)
QGPU_SCOPES(atomicMax)
#undef QGPU_SCOPES
QGPU_FN int atomicSub(int *p, int v) { return atomicAdd(p, (int)(0u - (unsigned)v)); }
QGPU_FN unsigned atomicSub(unsigned *p, unsigned v) { return atomicAdd(p, 0u - v); }
#define QGPU_CAS(T) \
    QGPU_FN T atomicCAS(T *p, T compare, T v) { \
        __atomic_compare_exchange_n(p, &compare, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
        return compare; \
    }
QGPU_CAS(int)
QGPU_CAS(unsigned)
QGPU_CAS(unsigned long long)
#undef QGPU_CAS
QGPU_FN unsigned short atomicCAS(unsigned short *p, unsigned short compare, unsigned short v) {
    unsigned *word = (unsigned *)((size_t)p & ~(size_t)3); /* the half of its word */
    unsigned shift = ((unsigned)(size_t)p & 2) * 8, old = *(volatile unsigned *)word, seen;
    do {
        seen = old;
        if ((unsigned short)(seen >> shift) != compare) break;
        old = atomicCAS(word, seen, (seen & ~(0xffffu << shift)) | ((unsigned)v << shift));
    } while (old != seen);
    return (unsigned short)(seen >> shift);
}

/* ---- integer arithmetic ---- */
QGPU_BOTH int __popc(unsigned x) { return __builtin_popcount(x); }
QGPU_BOTH int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
QGPU_BOTH int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
QGPU_BOTH int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
QGPU_BOTH int __ffs(int x) { return x ? __builtin_ctz((unsigned)x) + 1 : 0; }
QGPU_BOTH int __ffsll(long long x) { return x ? __builtin_ctzll((unsigned long long)x) + 1 : 0; }
QGPU_BOTH unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
QGPU_BOTH unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
QGPU_BOTH int __mulhi(int a, int b) { return (int)(((long long)a * b) >> 32); }
QGPU_BOTH unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }
QGPU_BOTH unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    unsigned long long low = (a & 0xffffffffu) * (b & 0xffffffffu), mid = (a >> 32) * (b & 0xffffffffu) + (low >> 32);
    unsigned long long more = (a & 0xffffffffu) * (b >> 32) + (mid & 0xffffffffu);
    return (a >> 32) * (b >> 32) + (mid >> 32) + (more >> 32);
}
QGPU_BOTH long long __mul64hi(long long a, long long b) {
    return (long long)(__umul64hi((unsigned long long)a, (unsigned long long)b) - (a < 0 ? (unsigned long long)b : 0)
                       - (b < 0 ? (unsigned long long)a : 0));
}
QGPU_BOTH int __mul24(int a, int b) {
    return (int)((unsigned)((int)((unsigned)a << 8) >> 8) * (unsigned)((int)((unsigned)b << 8) >> 8));
}
QGPU_BOTH unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
QGPU_BOTH int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
QGPU_BOTH unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b) >> 1); }
QGPU_BOTH int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
QGPU_BOTH unsigned __urhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b + 1) >> 1); }
QGPU_BOTH unsigned __sad(int a, int b, unsigned c) { return c + (a > b ? (unsigned)a - (unsigned)b : (unsigned)b - (unsigned)a); }
QGPU_BOTH unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }

QGPU_FN unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
    unsigned r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(s & 0x7777u));
    return r;
}
#define QGPU_FUNNEL(name, spelling) \
    QGPU_FN unsigned name(unsigned low, unsigned high, unsigned n) { \
        unsigned r; \
        asm(spelling " %0, %1, %2, %3;" : "=r"(r) : "r"(low), "r"(high), "r"(n)); \
        return r; \
    }
QGPU_FUNNEL(__funnelshift_l, "shf.l.wrap.b32")
QGPU_FUNNEL(__funnelshift_lc, "shf.l.clamp.b32")
QGPU_FUNNEL(__funnelshift_r, "shf.r.wrap.b32")
QGPU_FUNNEL(__funnelshift_rc, "shf.r.clamp.b32")
#undef QGPU_FUNNEL
QGPU_FN int __dp4a(int a, int b, int c) {
    int r;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}
QGPU_FN unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    unsigned r;
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}

#define QGPU_MIN_MAX(R, A, B) \
    QGPU_BOTH R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; } \
    QGPU_BOTH R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }
QGPU_MIN_MAX(int, int, int)
QGPU_MIN_MAX(unsigned, unsigned, unsigned)
QGPU_MIN_MAX(unsigned, int, unsigned)
QGPU_MIN_MAX(unsigned, unsigned, int)
QGPU_MIN_MAX(long, long, long)
QGPU_MIN_MAX(unsigned long, unsigned long, unsigned long)
QGPU_MIN_MAX(long long, long long, long long)
QGPU_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
QGPU_MIN_MAX(float, float, float)
#undef QGPU_MIN_MAX
QGPU_BOTH unsigned umin(unsigned a, unsigned b) { return min(a, b); }
QGPU_BOTH unsigned umax(unsigned a, unsigned b) { return max(a, b); }
QGPU_BOTH int abs(int x) { return x < 0 ? (int)(0u - (unsigned)x) : x; }
QGPU_BOTH long abs(long x) { return x < 0 ? (long)(0ul - (unsigned long)x) : x; }
QGPU_BOTH long long abs(long long x) { return x < 0 ? (long long)(0ull - (unsigned long long)x) : x; }
QGPU_BOTH long long llabs(long long x) { return abs(x); }

template <class T> QGPU_FN T __ldg(const T *p) { return *p; }

extern "C" __host__ __device__ int printf(const char *, ...);
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : __builtin_trap())
#endif

QGPU_FN int clock() { return (int)__nvvm_read_ptx_sreg_clock(); }
QGPU_FN long long clock64() { return (long long)__nvvm_read_ptx_sreg_clock64(); }

#undef QGPU_FN
#undef QGPU_BOTH
#endif
