/* Compares what the hook of CUDA calls declares with NVIDIA's public headers; compiled
 * where those are. */
#include <stddef.h>

#include <cupti.h>

#include "hook.h"

#pragma GCC diagnostic ignored "-Wenum-compare"
#define SAME(what) _Static_assert(what, #what)
#define AT(ours, our_field, theirs, their_field) \
    SAME(offsetof(struct ours, our_field) == offsetof(theirs, their_field))

AT(cupti_call, site, CUpti_CallbackData, callbackSite);
AT(cupti_call, function, CUpti_CallbackData, functionName);
AT(cupti_call, arguments, CUpti_CallbackData, functionParams);
AT(cupti_call, result, CUpti_CallbackData, functionReturnValue);
AT(cupti_call, symbol, CUpti_CallbackData, symbolName);
AT(cupti_call, context, CUpti_CallbackData, context);
AT(cupti_call, own, CUpti_CallbackData, correlationData);
AT(cupti_call, correlation, CUpti_CallbackData, correlationId);
SAME(sizeof(struct cupti_call) == sizeof(CUpti_CallbackData));
SAME(CUPTI_DRIVER_API == CUPTI_CB_DOMAIN_DRIVER_API);
SAME(CUPTI_ENTER == CUPTI_API_ENTER);
SAME(CUPTI_EXIT == CUPTI_API_EXIT);
SAME(sizeof(CUpti_ApiCallbackSite) == 4);

AT(launch_config, grid, CUlaunchConfig, gridDimX);
AT(launch_config, block, CUlaunchConfig, blockDimX);
AT(launch_config, shared, CUlaunchConfig, sharedMemBytes);
AT(launch_config, stream, CUlaunchConfig, hStream);
AT(launch_parameters, function, cuLaunchKernel_params, f);
AT(launch_parameters, grid, cuLaunchKernel_params, gridDimX);
AT(launch_parameters, block, cuLaunchKernel_params, blockDimX);
AT(launch_parameters, shared, cuLaunchKernel_params, sharedMemBytes);
AT(launch_parameters, stream, cuLaunchKernel_params, hStream);
AT(launch_parameters, stream, cuLaunchCooperativeKernel_params, hStream);

#define SIDE(side, Side, type, ours) \
    AT(ours, side.x, type, Side##XInBytes); \
    AT(ours, side.y, type, Side##Y); \
    AT(ours, side.memory, type, Side##MemoryType); \
    AT(ours, side.host, type, Side##Host); \
    AT(ours, side.device, type, Side##Device); \
    AT(ours, side.array, type, Side##Array); \
    AT(ours, side.pitch, type, Side##Pitch)
SIDE(from, src, CUDA_MEMCPY2D, copy_2d);
SIDE(to, dst, CUDA_MEMCPY2D, copy_2d);
AT(copy_2d, width, CUDA_MEMCPY2D, WidthInBytes);
AT(copy_2d, height, CUDA_MEMCPY2D, Height);
SAME(sizeof(struct copy_2d) == sizeof(CUDA_MEMCPY2D));
SIDE(from, src, CUDA_MEMCPY3D, copy_3d);
SIDE(to, dst, CUDA_MEMCPY3D, copy_3d);
AT(copy_3d, width, CUDA_MEMCPY3D, WidthInBytes);
AT(copy_3d, height, CUDA_MEMCPY3D, Height);
AT(copy_3d, depth, CUDA_MEMCPY3D, Depth);
SAME(sizeof(struct copy_3d) == sizeof(CUDA_MEMCPY3D));
SAME(MEMORY_HOST == CU_MEMORYTYPE_HOST);
SAME(MEMORY_DEVICE == CU_MEMORYTYPE_DEVICE);
SAME(MEMORY_ARRAY == CU_MEMORYTYPE_ARRAY);
SAME(NOT_READY == CUDA_ERROR_NOT_READY);

/* Where the arguments lie that recipes name, as words. */
#define WORD(function, field, n) \
    SAME(offsetof(function##_params, field) == 8 * (n - 1))
WORD(cuMemAlloc_v2, dptr, 1);
WORD(cuMemAlloc_v2, bytesize, 2);
WORD(cuMemAllocManaged, bytesize, 2);
WORD(cuMemAllocAsync, bytesize, 2);
WORD(cuMemAllocFromPoolAsync, bytesize, 2);
WORD(cuMemAllocHost_v2, bytesize, 2);
WORD(cuMemHostAlloc, bytesize, 2);
WORD(cuMemHostRegister_v2, bytesize, 2);
WORD(cuMemAddressReserve, size, 2);
WORD(cuMemAddressFree, size, 2);
WORD(cuMemCreate, size, 2);
WORD(cuMemMap, size, 2);
WORD(cuMemUnmap, size, 2);
WORD(cuMemFree_v2, dptr, 1);
WORD(cuMemFreeAsync, dptr, 1);
WORD(cuMemPrefetchAsync, count, 2);
WORD(cuMemcpy, ByteCount, 3);
WORD(cuMemcpyAsync, ByteCount, 3);
WORD(cuMemcpyHtoD_v2, ByteCount, 3);
WORD(cuMemcpyHtoDAsync_v2, ByteCount, 3);
WORD(cuMemcpyDtoH_v2, ByteCount, 3);
WORD(cuMemcpyDtoHAsync_v2, ByteCount, 3);
WORD(cuMemcpyDtoD_v2, ByteCount, 3);
WORD(cuMemcpyDtoDAsync_v2, ByteCount, 3);
WORD(cuMemcpyPeer, ByteCount, 5);
WORD(cuMemcpyPeerAsync, ByteCount, 5);
WORD(cuMemcpyHtoA_v2, ByteCount, 4);
WORD(cuMemcpyAtoH_v2, ByteCount, 4);
WORD(cuMemcpyDtoA_v2, ByteCount, 4);
WORD(cuMemcpyAtoD_v2, ByteCount, 4);
WORD(cuMemcpyAtoA_v2, ByteCount, 5);
WORD(cuMemsetD8_v2, N, 3);
WORD(cuMemsetD16_v2, N, 3);
WORD(cuMemsetD32_v2, N, 3);
WORD(cuMemsetD32Async, N, 3);
WORD(cuGetProcAddress_v2, symbol, 1);
WORD(cuGetProcAddress_v2, pfn, 2);
WORD(cuModuleGetFunction, hfunc, 1);
WORD(cuModuleGetFunction, name, 3);
WORD(cuLibraryGetKernel, pKernel, 1);
WORD(cuLibraryGetKernel, name, 3);
WORD(cuKernelGetFunction, pFunc, 1);
WORD(cuKernelGetFunction, kernel, 2);
