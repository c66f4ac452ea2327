#include "tessera/torch/process_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#ifdef TESSERA_TORCH_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include "tessera/core/error.h"

namespace tessera::run {
namespace {

constexpr std::chrono::seconds kConnect(10);  // until all have opened their links
// c10d's own limits, of half an hour and less, would end what only waits for work.
constexpr std::chrono::hours kForever(24 * 365);
constexpr int kTag = 0;

/// A KeyStore as c10d asks for one.
class Store final : public c10d::Store {
 public:
  explicit Store(std::shared_ptr<KeyStore> keys) : keys_(std::move(keys)) {}

  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    keys_->set(key, value);
  }
  std::vector<std::uint8_t> get(const std::string& key) override { return keys_->get(key); }
  bool check(const std::vector<std::string>& keys) override {
    return std::ranges::all_of(keys, [&](const std::string& key) { return keys_->has(key); });
  }
  // However long the others load: the master hears of one that is gone.
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) keys_->get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
    wait(keys);
  }
  std::int64_t add(const std::string&, std::int64_t) override { refuse_call("add"); }
  bool deleteKey(const std::string&) override { refuse_call("deleteKey"); }
  std::int64_t getNumKeys() override { refuse_call("getNumKeys"); }
  virtual c10::intrusive_ptr<c10d::Store> clone() { return c10::make_intrusive<Store>(keys_); }

 private:
  [[noreturn]] static void refuse_call(const char* name) {
    throw Error(ErrorCode::unsupported, fmt::format("c10d asks its store for {}", name));
  }
  std::shared_ptr<KeyStore> keys_;
};

at::Tensor bytes_of(const void* data, std::size_t size) {
  return at::from_blob(const_cast<void*>(data), {static_cast<std::int64_t>(size)},
                       at::TensorOptions().dtype(at::kByte));
}

class Gloo final : public ProcessGroup {
 public:
  explicit Gloo(const ProcessGroupRequest& request) {
    auto options = c10d::ProcessGroupGloo::Options::create(kConnect);
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(request.host));
    options->threads = 1;  // of collectives, which nobody calls
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<Store>(request.store),
                                                         request.rank, request.size, options);
  }

  void send(std::int32_t rank, std::span<const std::byte> bytes) override {
    std::vector<at::Tensor> tensors{bytes_of(bytes.data(), bytes.size())};
    finish(sending_, [&] { return group_->send(tensors, rank, kTag); });
  }
  void receive(std::int32_t rank, std::span<std::byte> bytes) override {
    std::vector<at::Tensor> tensors{bytes_of(bytes.data(), bytes.size())};
    finish(receiving_, [&] { return group_->recv(tensors, rank, kTag); });
  }
  void abort() noexcept override {
    const std::lock_guard lock(mutex_);
    is_aborted_ = true;
    if (sending_) sending_->abort();
    if (receiving_) receiving_->abort();
  }

 private:
  using Work = decltype(std::declval<c10d::ProcessGroupGloo>().recvAnysource(
      std::declval<std::vector<at::Tensor>&>(), 0));

  template <class Begin>
  void finish(Work& under_way, const Begin& begin) {
    {
      const std::lock_guard lock(mutex_);
      check();
      under_way = begin();
    }
    under_way->wait(kForever);
    const std::lock_guard lock(mutex_);
    under_way.reset();
    check();
  }
  void check() const {
    if (is_aborted_) throw Error(ErrorCode::io, "the group was given up");
  }

  std::mutex mutex_;
  bool is_aborted_ = false;
  Work sending_, receiving_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

#ifdef TESSERA_TORCH_NCCL
/// Between GPUs, each rank its own. What is sent and received passes through the host's memory.
class Nccl final : public ProcessGroup {
 public:
  explicit Nccl(const ProcessGroupRequest& request) : device_(request.device) {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = kForever;
    group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(c10::make_intrusive<Store>(request.store),
                                                         request.rank, request.size, options);
  }

  // Works of a stream: a copy to the host returns behind them.
  void send(std::int32_t rank, std::span<const std::byte> bytes) override {
    std::vector<at::Tensor> tensors{bytes_of(bytes.data(), bytes.size()).to(device_)};
    group_->send(tensors, rank, kTag)->wait();
    tensors.front().slice(0, 0, 1).cpu();
  }
  void receive(std::int32_t rank, std::span<std::byte> bytes) override {
    std::vector<at::Tensor> tensors{
        at::empty({std::ssize(bytes)}, at::TensorOptions().dtype(at::kByte).device(device_))};
    group_->recv(tensors, rank, kTag)->wait();
    bytes_of(bytes.data(), bytes.size()).copy_(tensors.front());
  }
  void abort() noexcept override {
    try {
      group_->abort();
    } catch (const std::exception&) {
      // It ends all the same.
    }
  }

 private:
  at::Device device_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
};
#endif

}  // namespace

std::unique_ptr<ProcessGroup> make_process_group(const ProcessGroupRequest& request) {
#ifdef TESSERA_TORCH_NCCL
  if (request.device.starts_with("cuda")) return std::make_unique<Nccl>(request);
#endif
  return std::make_unique<Gloo>(request);
}

}  // namespace tessera::run
