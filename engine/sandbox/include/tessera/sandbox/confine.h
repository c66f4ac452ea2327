#pragma once

#include <string>
#include <vector>

namespace tessera::sandbox {

/// What a confined process keeps.
struct Confinement {
  std::string write_root;               ///< files are made, written and removed beneath it only
  std::vector<std::string> read_roots;  ///< read besides: folders or single files
  double memory_bytes = 0;              ///< of its own data
  double cpu_s = 0;                     ///< of all its threads together
};

/// Puts the kernel's walls around this process and every thread it will start: resource limits, no
/// new privileges and no capabilities, Landlock (files, TCP, abstract sockets, signals), seccomp
/// (no new processes or programs, no sockets, no other process). Call it while the process has one
/// thread; nothing can be taken back.
/// @returns what this kernel does not offer, in words; empty where every wall stands
std::vector<std::string> confine(const Confinement& confinement);

}  // namespace tessera::sandbox
