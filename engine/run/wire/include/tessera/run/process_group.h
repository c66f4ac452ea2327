#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// Bytes between processes by an engine that is not ours: PyTorch's c10d, in the module with
/// LibTorch (engine/torch/transport).
namespace tessera::run {

/// Where processes of a group read how they reach each other. Every key is set once.
class KeyStore {
 public:
  using Value = std::vector<std::uint8_t>;
  virtual ~KeyStore() = default;
  virtual void set(const std::string& key, Value value) = 0;
  /// Waits until somebody has set it. @throws Error{io} where the group is given up meanwhile
  virtual Value get(const std::string& key) = 0;
  virtual bool has(const std::string& key) = 0;
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  /// Return when it is done, however long that takes; one thread may send while another receives.
  /// @throws std::exception where the peer is gone, and after abort()
  virtual void send(std::int32_t rank, std::span<const std::byte> bytes) = 0;
  virtual void receive(std::int32_t rank, std::span<std::byte> bytes) = 0;
  /// Ends what waits and what will, from any thread.
  virtual void abort() noexcept = 0;
};

struct ProcessGroupRequest {
  std::string device;  ///< of the model: between "cuda" or "cuda:1" by NCCL, where that is
                       ///< built in; else by Gloo
  std::string host;    ///< address of this machine where the others reach it
  std::int32_t rank = 0, size = 1;
  std::shared_ptr<KeyStore> store;
};

/// What the module exports: returns when all ranks are there. @throws std::exception
using ProcessGroupEntry = std::unique_ptr<ProcessGroup>(const ProcessGroupRequest&);
inline constexpr const char* kProcessGroupEntry = "tessera_torch_process_group";

}  // namespace tessera::run
