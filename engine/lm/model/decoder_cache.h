#pragma once

#include <memory>
#include <vector>

#include "description.h"
#include "tessera/lm/backend.h"
#include "tessera/lm/language_model.h"

namespace tessera::lm {

/// The heads that a request keeps, or those that it leaves to others.
enum class KvHeads { own, elsewhere };

class DecoderCache final : public KvCache {
 public:
  /// Of the layers and the share of their heads that `request` asks for.
  DecoderCache(const Description& description, const LoadRequest& request, std::int64_t num_blocks,
               std::int64_t block_size, std::shared_ptr<const Backend> backend,
               KvHeads which = KvHeads::own);
  std::int64_t num_blocks() const override { return num_blocks_; }
  std::int64_t block_size() const override { return block_size_; }
  std::int64_t bytes() const override { return bytes_; }

  void touch() override;
  std::int64_t block_bytes(std::int64_t first, std::int64_t last) const override;
  void read(std::span<const std::int32_t> blocks, std::int64_t first, std::int64_t last,
            std::span<std::byte> out) const override;
  void write(std::span<const std::int32_t> blocks, std::int64_t first, std::int64_t last,
             std::span<const std::byte> in) override;
  void copy(std::int32_t from, std::int32_t to) override;

  const kernels::KvBlocks& layer(std::int64_t index) const {
    return layers_[static_cast<std::size_t>(index)];
  }
  /// Whom it was made for: layers of another model do not fit.
  const Description* owner() const { return owner_; }

 private:
  /// Keys, values or scales of a layer.
  struct Array {
    Memory memory;
    std::int64_t block_bytes = 0;

    char* block(std::int32_t index) const {
      return static_cast<char*>(memory.get()) + index * block_bytes;
    }
  };

  void* add(std::vector<Array>& arrays, std::int64_t bytes);
  void check_block(std::int32_t block) const;
  template <class F>
  void each(std::span<const std::int32_t> blocks, std::int64_t first, std::int64_t last,
            std::size_t bytes, const F& f) const;

  const Description* owner_;
  std::int64_t num_blocks_, block_size_, first_layer_, last_layer_, bytes_ = 0;
  std::shared_ptr<const Backend> backend_;
  std::vector<std::vector<Array>> arrays_;  ///< [num_layers]
  std::vector<kernels::KvBlocks> layers_;   ///< [num_layers]
};

}  // namespace tessera::lm
