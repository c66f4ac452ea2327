# find_package(tessera_kernels): tessera::kernels_cpu, and tessera::kernels_cuda_info, what there is of CUDA kernels.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/tessera_kernels-targets.cmake)
