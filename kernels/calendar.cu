// Days since 1970 to year, month and day, and the weekday: divisions by constants in functions that are called, not inlined.
// qgpu: {"kernel": "calendar", "grid": [1, 1, 1], "block": [12, 1, 1], "args": [{"type": "i32", "data": [0, 1, 59, 60, 365, 19782, 11016, -1, -25567, 20454, 24855, 47540]}, {"type": "u32", "zeros": 12}, {"type": "u8", "zeros": 12}], "expect": [null, [19700101, 19700102, 19700301, 19700302, 19710101, 20240229, 20000229, 19691231, 19000101, 20260101, 20380119, 21000228], [4, 5, 0, 1, 5, 4, 2, 3, 1, 4, 2, 0]]}

__device__ __noinline__ int floor_divide(int a, int b)
{
    return (a >= 0 ? a : a - (b - 1)) / b;
}

__device__ __noinline__ unsigned civil(int days)
{
    days += 719468;
    int era = floor_divide(days, 146097);
    unsigned day_of_era = days - era * 146097;
    unsigned year = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    unsigned day = day_of_era - (365 * year + year / 4 - year / 100);
    unsigned month = (5 * day + 2) / 153;
    day = day - (153 * month + 2) / 5 + 1;
    month = month < 10 ? month + 3 : month - 9;
    return (year + era * 400 + (month <= 2)) * 10000 + month * 100 + day;
}

__global__ void calendar(const int *days, unsigned *date, unsigned char *weekday)
{
    int d = days[threadIdx.x];
    date[threadIdx.x] = civil(d);
    weekday[threadIdx.x] = d + 4 - 7 * floor_divide(d + 4, 7);
}
