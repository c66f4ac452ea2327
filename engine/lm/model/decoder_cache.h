#pragma once

#include <memory>
#include <vector>

#include "description.h"
#include "step.h"
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

  void touch(const std::stop_token& stop) override;
  std::int64_t block_bytes(std::int64_t first, std::int64_t last) const override;
  void read(std::span<const std::int32_t> blocks, std::int64_t first, std::int64_t last,
            std::span<std::byte> out) const override;
  void write(std::span<const std::int32_t> blocks, std::int64_t first, std::int64_t last,
             std::span<const std::byte> in) override;
  void copy(std::int32_t from, std::int32_t to) override;

  const kernels::KvBlocks& layer(std::int64_t index) const {
    return layers_[static_cast<std::size_t>(index)];
  }
  /// The state of a layer before the rows of a sequence, in the block of its last token, where it
  /// is to be that of after them: a block keeps the state of after the last token that was written
  /// to it, and how many there were.
  /// @throws Error{unsupported} where the sequence goes on from a token whose state is gone
  float* advance_state(std::int64_t index, const SequenceRows& rows) const;

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
  std::int64_t state_bytes_ = 0;            ///< of a layer that has one, with its count
};

}  // namespace tessera::lm
